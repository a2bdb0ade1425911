// A tokenizer.json as Hugging Face's tokenizers 0.23 reads it: text to ids and back, token for token.
#ifndef ZEROFLEET_WORKER_TEXT_BPE_TOKENIZER_H_
#define ZEROFLEET_WORKER_TEXT_BPE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "worker/text/added_tokens.h"
#include "worker/text/bpe.h"
#include "worker/text/steps.h"
#include "worker/text/tokenizer.h"
#include "worker/text/word_cache.h"

namespace zerofleet::text {

class BpeTokenizer : public Tokenizer {
 public:
  // InvalidArgument names the part of `json` that is malformed or not supported. `config` is the text of a
  // tokenizer_config.json; empty if there is none.
  static absl::StatusOr<std::unique_ptr<BpeTokenizer>> Parse(std::string_view json, std::string_view config = "");

  // Reads a tiktoken ranks file (tiktoken.h) with this name. Its special tokens are found in a text as those of a
  // tokenizer.json are; Encode's `special` puts none around a text. InvalidArgument for contents that are malformed or
  // an unknown encoding.
  static absl::StatusOr<std::unique_ptr<BpeTokenizer>> ParseRanks(std::string_view contents, std::string_view name);

  int64_t vocab() const override { return static_cast<int64_t>(tokens_.size()); }
  // The config's eos_token, or else the first known name of such a token in the vocabulary.
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  const std::string& digest() const override { return digest_; }
  // Bytes that are not UTF-8 become U+FFFD.
  absl::Status EncodeTo(std::string_view text, bool special, std::vector<int32_t>& ids) const override;
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool special) const override;
  size_t LastCut(std::string_view text) const override;

 private:
  absl::Status ParseParts(const nlohmann::json& file);
  absl::Status AddTokens();
  absl::Status FindEndOfText(std::string_view config);
  absl::Status ParsePostProcessor(const nlohmann::json& object, const std::string& where);
  absl::Status ParseTemplate(const nlohmann::json& object, const std::string& where);
  // Appends the ids of a part of the text in which no tokens are to be found before it is normalized.
  absl::Status EncodePart(std::string_view part, bool first, std::vector<int32_t>& ids) const;
  absl::Status EncodeNormalized(std::string_view part, bool first, std::vector<int32_t>& ids) const;
  // Appends the ids of a part whose words a scanner finds and whose symbols are bytes.
  void EncodeWords(std::string_view part, std::vector<int32_t>& ids) const;
  // Appends the ids of a piece, whose symbols are characters.
  void EncodePiece(std::string_view piece, std::vector<int32_t>& ids) const;

  BpeModel model_;
  std::vector<AddedToken> added_;
  AddedTokenFinder raw_finder_, normalized_finder_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  ByteLevelWords words_;  // does what pre_tokenizer_ does, if there is a scanner for it
  mutable SharedWords words_of_threads_;
  Decoder decoder_;
  std::vector<int32_t> before_, after_;  // ids that the post-processor puts around a text
  struct Token {
    std::string content;
    bool known, special;
  };
  std::vector<Token> tokens_;  // indexed by id; ids between others may be unknown
  std::optional<int32_t> end_of_text_;
  std::string digest_;
  bool cuts_behind_newlines_ = false;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_BPE_TOKENIZER_H_
