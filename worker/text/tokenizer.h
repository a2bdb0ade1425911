// Tokenizers: text to token ids and back.
//
// To add a tokenizer, write a class behind Tokenizer and a line in tokenizer_factory.cc.
#ifndef ZEROFLEET_WORKER_TEXT_TOKENIZER_H_
#define ZEROFLEET_WORKER_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace zerofleet::text {

// The value of data.tokenizer for one token per byte.
inline constexpr char kBytes[] = "bytes";
// The files of a Hugging Face tokenizer: one makes it, the other says which token ends a text.
inline constexpr char kTokenizerFile[] = "tokenizer.json", kTokenizerConfigFile[] = "tokenizer_config.json";
inline constexpr char kEndTokenKey[] = "eos_token";  // a key of kTokenizerConfigFile
inline constexpr char kSentencePieceFile[] = "tokenizer.model", kTiktokenEnding[] = ".tiktoken";
// Files that make a tokenizer, in the order in which a directory is searched.
inline constexpr const char* kTokenizerFiles[] = {kTokenizerFile,         kSentencePieceFile,    "gpt2.tiktoken",
                                                  "cl100k_base.tiktoken", "o200k_base.tiktoken", "llama3.tiktoken"};

// The file that `name`, a value of data.tokenizer other than kBytes, stands for: `name` itself or, for a directory, the
// first of kTokenizerFiles in it; kTokenizerFile if there is none.
std::string TokenizerPath(const std::string& name);
// The setting of the token that ends a text, in the tokenizer_config.json beside a value of data.tokenizer, as JSON;
// empty if there is none that can be read. It is part of what decides a text's tokens, but not of a tokenizer's digest.
std::string EndTokenSetting(const std::string& name);
// The name among kTokenizerFiles under which a copy of the file at `path` is kept.
std::string KeptTokenizerName(const std::string& path, std::string_view contents);

// Immutable and thread-safe.
class Tokenizer {
 public:
  // `name` is a value of data.tokenizer: kBytes; the path of a tokenizer.json, a sentencepiece model or a tiktoken
  // ranks file, which are distinguished by their contents; or the path of a directory that holds one. Errors name the
  // file: NotFound; InvalidArgument if it is malformed or not supported; ResourceExhausted if it is too large.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& name);
  // Makes a tokenizer from a file's contents. `config` is the contents of the tokenizer_config.json beside it, which a
  // tokenizer.json uses; empty if there is none.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(const std::string& path, std::string_view contents,
                                                          std::string_view config);
  virtual ~Tokenizer() = default;

  // Ids are in [0, vocab()).
  virtual int64_t vocab() const = 0;
  // The token that follows each document of training data, if the tokenizer has one.
  virtual std::optional<int32_t> end_of_text() const = 0;
  // A digest that identifies the tokenizer (base/digest.h); empty for kBytes.
  virtual const std::string& digest() const = 0;

  // Appends the ids of `text`. `special`: includes the tokens that the tokenizer puts around a text. ResourceExhausted
  // if a regular expression gives up.
  virtual absl::Status EncodeTo(std::string_view text, bool special, std::vector<int32_t>& ids) const = 0;
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, bool special) const;
  // InvalidArgument, naming the id, if one is not in the vocabulary. `special`: special tokens are shown too.
  virtual absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool special) const = 0;

  // The last offset at which `text` can be cut so that the parts' ids are those of the whole; 0 if none is known.
  virtual size_t LastCut(std::string_view text) const = 0;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_TOKENIZER_H_
