// Tokens that arrive one by one, as text as soon as it is known.
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
  // Continues a text of these tokens. `tokenizer` must outlive it.
  TextStream(const Tokenizer& tokenizer, std::vector<int32_t> before);

  // What `token` adds; nothing while a character lacks its end. Errors are Tokenizer::Decode's.
  absl::StatusOr<std::string> Add(int32_t token);
  // What is left, incomplete as it is.
  absl::StatusOr<std::string> Finish();

 private:
  absl::StatusOr<std::string> Next(bool even_incomplete);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> tokens_;
  // Tokens from `context_` on, where a whole character begins, are decoded with each new one, since a token's text
  // depends on what is before it; those before `told_` have been told.
  size_t context_ = 0, told_ = 0;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_TEXT_STREAM_H_
