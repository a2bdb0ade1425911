// A text that a model continues, token by token.
#ifndef ZEROFLEET_CLI_COMMANDS_CONTINUATION_H_
#define ZEROFLEET_CLI_COMMANDS_CONTINUATION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/inference/inference.h"
#include "worker/inference/sampling.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::cli {

struct ContinuationOptions {
  int64_t tokens = 200;  // at most
  inference::Sampling sampling;
  std::vector<std::string> stop;       // texts that end it, none empty
  std::optional<int32_t> end_of_turn;  // another token that ends it
  uint64_t seed = 1;
};

struct Continuation {
  std::string text;
  int64_t prompt_tokens = 0, tokens = 0;
  double seconds = 0;                 // of the tokens behind the first one
  const char* stopped_by = "tokens";  // or end_of_text, stop
};

// Continues `prompt` until something ends it, or `show`, which is given each piece of text, returns false. Errors are
// those of the model.
absl::StatusOr<Continuation> Continue(inference::InferenceModel& model, const text::Tokenizer& tokenizer,
                                      const std::vector<int32_t>& prompt, const ContinuationOptions& options,
                                      const std::function<bool(const std::string&)>& show);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_CONTINUATION_H_
