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

namespace zerofleet::text {

// Immutable, and so usable by many threads.
class BpeModel {
 public:
  // From `model` of a tokenizer.json; InvalidArgument that names the field, or what is not supported.
  static absl::StatusOr<BpeModel> Parse(const nlohmann::json& model);

  // Appends the ids of `word`, which must be UTF-8. O(n log n) in its length.
  void Encode(std::string_view word, std::vector<int32_t>& ids) const;
  // -1 where it is not in the vocabulary.
  int32_t IdOf(std::string_view token) const;
  const absl::flat_hash_map<std::string, int32_t>& vocab() const { return vocab_; }

 private:
  struct Merge {
    int32_t rank, id;
  };

  absl::Status ParseVocab(const nlohmann::json& model);
  absl::Status ParseMerges(const nlohmann::json& model);
  absl::Status AddMerge(const std::string& left, const std::string& right, int32_t rank);
  std::vector<int32_t> Symbols(std::string_view word) const;
  const Merge* Find(int32_t left, int32_t right) const;
  void MergeByScan(std::vector<int32_t>& symbols) const;
  void MergeByHeap(std::vector<int32_t>& symbols) const;

  absl::flat_hash_map<std::string, int32_t> vocab_;
  absl::flat_hash_map<uint64_t, Merge> merges_;  // key: left id in the high half, right id in the low one
  int32_t unknown_ = -1;
  std::vector<int32_t> byte_ids_;  // of "<0x00>" to "<0xFF>", -1 where there is none; empty without byte_fallback
  bool fuse_unknown_ = false, ignore_merges_ = false;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_BPE_H_
