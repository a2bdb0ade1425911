// Files of token ids that are made from text files once and kept.
//
// They are kept under a digest of the text file, of the tokenizer and of the token that ends a document, so that a
// second start finds them. Any process may make them: one does, while others that share the directory wait for it.
#ifndef ZEROFLEET_WORKER_DATA_TEXT_TOKENS_H_
#define ZEROFLEET_WORKER_DATA_TEXT_TOKENS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/digest.h"
#include "worker/data/format.h"
#include "worker/data/token_file.h"
#include "worker/text/chat_template.h"
#include "worker/text/tokenizer.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::data {

// TextOptions::end_token for no token behind documents.
inline constexpr int32_t kNoEndToken = -1;

struct TextOptions {
  std::string
      directory;  // where tokens are kept; created if missing; empty: tokens are kept in memory while they are used
  int threads = 1;
  // Takes a file's path and the part of it, 0 to 1, that has been read; may be null.
  std::function<void(const std::string& path, double part)> progress;
  std::function<bool()> cancelled;   // may be null
  std::optional<int32_t> end_token;  // put behind each document; unset: the tokenizer's own; kNoEndToken: none
};

struct TextTokens {
  std::unique_ptr<TokenFile> file;
  TokenFormat format;
  int64_t documents = 0, text_bytes = 0;  // bytes of the documents' text
  bool marks = false;                     // ids have 4 bytes and may carry kUncounted and kEndsDocument (tokenize.h)
  DigestBits digest;                      // digest of the tokens when they were made
  bool found = true;                      // they were there already
};

// Reads the tokens in `file`. DataLoss, naming the file, if their digest is not `digest`; Cancelled.
absl::Status VerifyTokens(const TokenFile& file, const TokenFormat& format, const DigestBits& digest,
                          const std::function<bool()>& cancelled);

// The error that VerifyTokens returns for a damaged file.
absl::Status DamagedTokens(const TokenFile& file);

// Bytes of an id in a file: 2 if the vocabulary fits, else 4.
int TokenBytes(int64_t vocab);

class TextTokenizer {
 public:
  // Uses data.tokenizer and data.tokenizer_digest. The tokenizer is loaded when it is first needed, unless `loaded` is
  // given.
  TextTokenizer(const v1::DataConfig& config, TextOptions options, std::unique_ptr<text::Tokenizer> loaded = nullptr);

  // Returns the tokens of `text`, found or made. InvalidArgument, naming the key, if the tokenizer cannot be loaded or
  // is not the one that the configuration names; DataLoss, naming the file, if the file is not such text;
  // ResourceExhausted if the tokens cannot be written; Cancelled.
  //
  // Ids are marked with data.loss_on: assistant, which allows only JSON lines (DataLoss otherwise), and with
  // data.packing if lines may be chats.
  absl::StatusOr<TextTokens> Open(const TokenFile& text, const TokenFormat& format);

  // What, besides text and tokenizer, decided the tokens of everything opened so far: "end token "</s>", chat template
  // 0123..."; empty if nothing did.
  std::string Makers() const;

  // The token that ends a text. Errors as Open's.
  absl::StatusOr<std::optional<int32_t>> EndToken();

 private:
  absl::Status Load();
  // The digest of the tokenizer's chat template; empty if it has none.
  absl::StatusOr<std::string> LoadChat();
  absl::Status Make(const TokenFile& text, const TokenFormat& format, bool marks, const std::string& key,
                    const std::string& path);
  absl::StatusOr<TextTokens> MakeInMemory(const TokenFile& text, const TokenFormat& format, bool marks,
                                          const std::string& key);

  const std::string name_, digest_;
  const bool answers_, packs_;  // data.loss_on: assistant; data.packing
  const TextOptions options_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> chat_;
  std::string end_setting_;  // text::EndTokenSetting; set when text is first opened
  int64_t opened_ = 0;
};

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_TEXT_TOKENS_H_
