// Text to token ids and back, whichever the tokenizer is.
//
// A new tokenizer is a class behind Tokenizer and a line in tokenizer_factory.cc.
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
// The files of a tokenizer: one makes it, another says which token ends a text.
inline constexpr char kTokenizerFile[] = "tokenizer.json", kTokenizerConfigFile[] = "tokenizer_config.json";
inline constexpr char kEndTokenKey[] = "eos_token";  // of that file
inline constexpr char kSentencePieceFile[] = "tokenizer.model", kTiktokenEnding[] = ".tiktoken";
// Those that make one, in the order in which a folder is looked through.
inline constexpr const char* kTokenizerFiles[] = {kTokenizerFile,         kSentencePieceFile,    "gpt2.tiktoken",
                                                  "cl100k_base.tiktoken", "o200k_base.tiktoken", "llama3.tiktoken"};

// The file that `name`, a value of data.tokenizer that is not kBytes, stands for: itself, or the first of
// kTokenizerFiles in it; kTokenizerFile if there is none.
std::string TokenizerPath(const std::string& name);
// What the tokenizer_config.json beside a value of data.tokenizer says of the token that ends a text, as JSON; empty
// where it says nothing that can be read. Part of what makes the tokens of a text, and not of a tokenizer's digest.
std::string EndTokenSetting(const std::string& name);
// Under which of kTokenizerFiles a copy of the file at `path` is kept.
std::string KeptTokenizerName(const std::string& path, std::string_view contents);

// Immutable, and so usable by many threads.
class Tokenizer {
 public:
  // `name` is a value of data.tokenizer: kBytes, the path of a tokenizer.json, of a sentencepiece model or of a
  // tiktoken ranks file, which their contents tell apart, or of a folder that holds one. Errors name the file:
  // NotFound, InvalidArgument for what is malformed or not supported, ResourceExhausted if too large.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& name);
  // The same of a file's contents, and of those of the tokenizer_config.json beside it, of which a tokenizer.json makes
  // use; empty: there is none.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Parse(const std::string& path, std::string_view contents,
                                                          std::string_view config);
  virtual ~Tokenizer() = default;

  // Ids are in [0, vocab()).
  virtual int64_t vocab() const = 0;
  // The token that follows each document of training data, if the tokenizer has one.
  virtual std::optional<int32_t> end_of_text() const = 0;
  // Which tokenizer this is: a digest of what makes it (base/digest.h); empty for kBytes.
  virtual const std::string& digest() const = 0;

  // `special`: with the tokens that the tokenizer puts around a text. ResourceExhausted if a regular expression gives
  // up.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, bool special) const = 0;
  // InvalidArgument, naming the id, if one is not in the vocabulary. `special`: special tokens are shown too.
  virtual absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool special) const = 0;

  // The last place in `text` where it can be cut so that the ids of both parts are those of the whole; 0 if none is
  // known.
  virtual size_t LastCut(std::string_view text) const = 0;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_TOKENIZER_H_
