// Turns text and JSON lines into token ids, on all threads and in bounded memory.
#ifndef ZEROFLEET_WORKER_DATA_TOKENIZE_H_
#define ZEROFLEET_WORKER_DATA_TOKENIZE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/format.h"
#include "worker/data/token_file.h"
#include "worker/text/chat_template.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::data {

// A bit set in an id that does not count as a target. Ids themselves are smaller.
inline constexpr int32_t kUncounted = INT32_MIN;
// A bit set, with TokenizeOptions::marks, in the id of the token behind a document; a chat template puts the same token
// between the messages of one document, where the bit is not set. Ids themselves are smaller.
inline constexpr int32_t kEndsDocument = 1 << 30;

struct TokenizeOptions {
  int threads = 1;
  std::optional<int32_t> end_token;             // put behind each document
  std::function<void(int64_t bytes)> progress;  // takes the bytes of the file read so far; may be null
  std::function<bool()> cancelled;              // called from every thread; may be null
  // Tokens of JSON lines count only in a `completion` behind a `prompt` and in the assistant's messages; all others get
  // kUncounted.
  bool answers = false;
  // The token behind each document gets kEndsDocument. Behind a chat, whose end the template has already marked, it
  // also gets kUncounted.
  bool marks = false;
  const text::ChatTemplate* chat = nullptr;  // renders `messages`; null: they are refused
};

struct TokenizeCounts {
  int64_t documents = 0, tokens = 0;
  int64_t text_bytes = 0;  // bytes of the documents' text
};

// Receives the ids in the order of the text.
using TokenSink = std::function<absl::Status(std::span<const int32_t> ids)>;

// `format` is a text format. A text file is one document. In JSON lines each line is a document: an object with `text`,
// with `messages`, or with what options.answers describes. DataLoss, naming file and line, for anything else;
// Cancelled; and whatever `sink` returns.
absl::StatusOr<TokenizeCounts> Tokenize(const TokenFile& file, const TokenFormat& format,
                                        const text::Tokenizer& tokenizer, const TokenizeOptions& options,
                                        const TokenSink& sink);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_TOKENIZE_H_
