// See continuation.h.
#include "cli/commands/continuation.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "base/status.h"
#include "cli/commands/stop_texts.h"
#include "cli/config/utf8.h"
#include "worker/text/text_stream.h"

namespace zerofleet::cli {
namespace {

// Turns tokens into the text to show: whole characters, up to a text that stops the continuation.
class Shown {
 public:
  Shown(const text::Tokenizer& tokenizer, const std::vector<int32_t>& prompt, std::vector<std::string> stop)
      : stream_(tokenizer, prompt), stops_(std::move(stop)) {}

  absl::StatusOr<std::string> Add(int32_t token) {
    ZF_ASSIGN_OR_RETURN(const std::string text, stream_.Add(token));
    return stops_.Add(characters_.Add(text));
  }
  absl::StatusOr<std::string> Finish() {
    ZF_ASSIGN_OR_RETURN(const std::string text, stream_.Finish());
    std::string shown = stops_.Add(characters_.Add(text));
    shown += stops_.Add(characters_.Finish());
    return shown + stops_.Finish();
  }
  bool stopped() const { return stops_.stopped(); }

 private:
  text::TextStream stream_;
  Utf8Stream characters_;  // a byte-level model may produce bytes that are not UTF-8
  StopTexts stops_;
};

using SteadyClock = std::chrono::steady_clock;

}  // namespace

absl::StatusOr<Continuation> Continue(inference::InferenceModel& model, const text::Tokenizer& tokenizer,
                                      const std::vector<int32_t>& prompt, const ContinuationOptions& options,
                                      const std::function<bool(const std::string&)>& show) {
  std::vector<int32_t> tokens = prompt;
  std::mt19937_64 random(options.seed);
  Shown shown(tokenizer, tokens, options.stop);
  Continuation result;
  result.prompt_tokens = static_cast<int64_t>(prompt.size());
  SteadyClock::time_point began;
  bool wanted = true;
  for (; result.tokens < options.tokens && wanted; ++result.tokens) {
    ZF_ASSIGN_OR_RETURN(std::vector<float> logits, model.NextLogits(tokens));
    // A vocabulary that was rounded up has ids that no text contains.
    logits.resize(std::min(logits.size(), static_cast<size_t>(tokenizer.vocab())));
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    const int32_t next = inference::SampleToken(std::move(logits), options.sampling, tokens, uniform);
    if (next == tokenizer.end_of_text() || next == options.end_of_turn) {
      result.stopped_by = "end_of_text";
      break;
    }
    if (result.tokens == 0) began = SteadyClock::now();
    tokens.push_back(next);
    ZF_ASSIGN_OR_RETURN(const std::string more, shown.Add(next));
    result.text += more;
    wanted = show(more);
    if (!shown.stopped()) continue;
    ++result.tokens;
    result.stopped_by = "stop";
    break;
  }
  if (result.tokens > 0) result.seconds = std::chrono::duration<double>(SteadyClock::now() - began).count();
  ZF_ASSIGN_OR_RETURN(const std::string rest, shown.Finish());
  result.text += rest;
  show(rest);
  return result;
}

}  // namespace zerofleet::cli
