// The text of tokens that arrive one by one, as soon as it is known.
#ifndef ZEROFLEET_WORKER_TEXT_TEXT_STREAM_H_
#define ZEROFLEET_WORKER_TEXT_TEXT_STREAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::text {

class TextStream {
 public:
  // Continues the text of the tokens `before`. `tokenizer` must outlive this.
  TextStream(const Tokenizer& tokenizer, std::vector<int32_t> before);

  // The text that `token` adds; empty while a character is incomplete. Errors are Tokenizer::Decode's.
  absl::StatusOr<std::string> Add(int32_t token);
  // The rest of the text, even if incomplete.
  absl::StatusOr<std::string> Finish();

 private:
  absl::StatusOr<std::string> Next(bool even_incomplete);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> tokens_;
  // Tokens from `context_` on, where a whole character begins, are decoded with each new token, since a token's text
  // depends on those before it. The text of tokens before `told_` has been returned.
  size_t context_ = 0, told_ = 0;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_TEXT_STREAM_H_
