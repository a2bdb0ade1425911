// Text and JSON lines to token ids, on all threads, in bounded memory.
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

// Set in an id: as a target it does not count. Ids are below it.
inline constexpr int32_t kUncounted = INT32_MIN;
// Set in the id of the token behind a document, with TokenizeOptions::marks: a chat template has that token between the
// messages of one document, too. Ids are below it.
inline constexpr int32_t kEndsDocument = 1 << 30;

struct TokenizeOptions {
  int threads = 1;
  std::optional<int32_t> end_token;             // put behind each document
  std::function<void(int64_t bytes)> progress;  // bytes of the file that were read so far; may be null
  std::function<bool()> cancelled;              // asked from every thread; may be null
  // Tokens of JSON lines count in a `completion` behind a `prompt` and in the assistant's messages alone: the others
  // have kUncounted.
  bool answers = false;
  // The token behind each document has kEndsDocument, and behind a chat, which its template has ended, kUncounted too.
  bool marks = false;
  const text::ChatTemplate* chat = nullptr;  // what `messages` become text by; null: they are refused
};

struct TokenizeCounts {
  int64_t documents = 0, tokens = 0;
  int64_t text_bytes = 0;  // of documents
};

// Takes the ids in the order of the text.
using TokenSink = std::function<absl::Status(std::span<const int32_t> ids)>;

// `format` is of text. A text file is one document; of JSON lines each line is one: an object whose `text` is
// the document, or whose `messages` are, or that options.answers describes. DataLoss, naming file and line, for what is
// not that; Cancelled; and whatever `sink` returns.
absl::StatusOr<TokenizeCounts> Tokenize(const TokenFile& file, const TokenFormat& format,
                                        const text::Tokenizer& tokenizer, const TokenizeOptions& options,
                                        const TokenSink& sink);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_TOKENIZE_H_
