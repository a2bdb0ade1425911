// Byte-pair encoding of one word: the model of a tokenizer.json, as Hugging Face's tokenizers run it.
#ifndef ZEROFLEET_WORKER_TEXT_BPE_H_
#define ZEROFLEET_WORKER_TEXT_BPE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "proto/json_parse.h"
#include "worker/text/joints.h"
#include "worker/text/merges.h"

namespace zerofleet::text {

// Immutable, and so usable by many threads.
class BpeModel {
 public:
  // Reads the `model` of a tokenizer.json. InvalidArgument names the field that is malformed or not supported.
  static absl::StatusOr<BpeModel> Parse(const nlohmann::json& model);

  // Makes a model from the tokens of a tiktoken ranks file, which are ordered by rank; ranks are the ids. Two symbols
  // are merged if together they are a token, the lowest rank first. Tokens are in the alphabet of byte_level.h.
  // InvalidArgument if one occurs twice.
  static absl::StatusOr<BpeModel> FromRanks(const std::vector<std::string>& tokens);

  // Appends the ids of `word`, which must be UTF-8. O(n log n) in its length.
  void Encode(std::string_view word, std::vector<int32_t>& ids) const;
  // Appends the ids of the characters that stand for `bytes` (byte_level.h).
  void EncodeBytes(std::string_view bytes, std::vector<int32_t>& ids) const;
  // The end of the word of `piece` that begins at `at`: Encode gives for words one by one what it gives for the piece.
  size_t WordEnd(std::string_view piece, size_t at) const {
    return divisible_ ? joints_.WordEnd(piece, at) : piece.size();
  }
  // Whether EncodeBytes has a symbol for each byte.
  bool knows_every_byte() const { return !byte_symbols_.empty(); }
  // The id of `token`; -1 if it is not in the vocabulary.
  int32_t IdOf(std::string_view token) const;
  const absl::flat_hash_map<std::string, int32_t>& vocab() const { return vocab_; }

 private:
  absl::Status ParseVocab(const nlohmann::json& model);
  absl::Status ParseMerges(const nlohmann::json& model);
  absl::Status AddMerge(const std::string& left, const std::string& right, int32_t rank);
  void FindSymbols();
  void FindDivisible();
  std::vector<int32_t> Symbols(std::string_view word) const;

  absl::flat_hash_map<std::string, int32_t> vocab_;
  Merges merges_;
  // Ids of the characters of the Basic Multilingual Plane that are tokens; -1 for the others.
  static constexpr uint32_t kCharacters = 0x10000;
  std::vector<int32_t> character_ids_;
  int32_t unknown_ = -1;
  std::vector<int32_t> byte_ids_;  // ids of "<0x00>" to "<0xFF>", -1 for a missing one; empty without byte_fallback
  // The ids of the characters that stand for bytes; empty unless all are in the vocabulary.
  std::vector<int32_t> byte_symbols_;
  bool fuse_unknown_ = false, ignore_merges_ = false;
  Joints joints_;
  bool divisible_ = false;  // the ids of a piece are those of its words
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_BPE_H_
