// Continues a text with a model, token by token.
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
  std::vector<std::string> stop;       // texts that end the continuation; none is empty
  std::optional<int32_t> end_of_turn;  // a further token that ends it
  uint64_t seed = 1;
};

struct Continuation {
  std::string text;
  int64_t prompt_tokens = 0, tokens = 0;
  double seconds = 0;                 // time of all tokens after the first one
  const char* stopped_by = "tokens";  // "tokens", "end_of_text" or "stop"
};

// Continues `prompt` until one of the options ends it, or until `show`, which receives each piece of text, returns
// false. Errors are those of the model.
absl::StatusOr<Continuation> Continue(inference::InferenceModel& model, const text::Tokenizer& tokenizer,
                                      const std::vector<int32_t>& prompt, const ContinuationOptions& options,
                                      const std::function<bool(const std::string&)>& show);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_CONTINUATION_H_
