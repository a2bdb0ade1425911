// Text files as files of token ids, which are made once and kept.
//
// They are kept under a digest of the text's file, of the tokenizer and of the token that ends a document, so that a
// second start finds them. Any process may make them; one does, while others that share the directory wait for it.
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

// How text becomes tokens where it has to.
inline constexpr int32_t kNoEndToken = -1;

struct TextOptions {
  std::string
      directory;  // where tokens are kept; made if there is none; empty: in memory, for as long as they are used
  int threads = 1;
  // A file's path, and which part of it has been read; may be null.
  std::function<void(const std::string& path, double part)> progress;
  std::function<bool()> cancelled;   // may be null
  std::optional<int32_t> end_token;  // behind each document: the tokenizer's own, another, or kNoEndToken
};

struct TextTokens {
  std::unique_ptr<TokenFile> file;
  TokenFormat format;
  int64_t documents = 0, text_bytes = 0;  // of documents
  bool marks = false;                     // ids have 4 bytes, with kUncounted and kEndsDocument (tokenize.h)
  DigestBits digest;                      // of the tokens, when they were made
};

// DataLoss, naming the file, if the tokens in `file` have another digest; Cancelled.
absl::Status VerifyTokens(const TokenFile& file, const TokenFormat& format, const DigestBits& digest,
                          const std::function<bool()>& cancelled);

// What VerifyTokens says of a damaged file.
absl::Status DamagedTokens(const TokenFile& file);

// Bytes of an id in a file: 2 where the vocabulary fits, else 4.
int TokenBytes(int64_t vocab);

class TextTokenizer {
 public:
  // Takes data.tokenizer and data.tokenizer_digest. The tokenizer is loaded when it is first needed, unless it is
  // `loaded` already.
  TextTokenizer(const v1::DataConfig& config, TextOptions options, std::unique_ptr<text::Tokenizer> loaded = nullptr);

  // The tokens of `text`, found or made. InvalidArgument, naming the key, for a tokenizer that cannot be loaded or is
  // another than the configuration says; DataLoss, naming the file, for one that is not such text; ResourceExhausted if
  // the tokens cannot be written; Cancelled.
  //
  // Ids are marked with data.loss_on: assistant, where DataLoss is for text that is not JSON lines, and with
  // data.packing where lines may be chats.
  absl::StatusOr<TextTokens> Open(const TokenFile& text, const TokenFormat& format);

  // What else than the text and the tokenizer makes the tokens of what was opened until now: "end token "</s>", chat
  // template 0123..."; empty where nothing does.
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
  std::string end_setting_;  // text::EndTokenSetting, once text was opened
};

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_TEXT_TOKENS_H_
