// The merges of a BPE model, and merging by them: the lowest rank first, of equal ones the leftmost.
#ifndef ZEROFLEET_WORKER_TEXT_MERGES_H_
#define ZEROFLEET_WORKER_TEXT_MERGES_H_

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/hash/hash.h"
#include "base/huge_pages.h"

namespace zerofleet::text {

// Symbols are ids of tokens, >= 0. Once filled, usable by many threads. A lookup reads one cache line, most often from
// memory: a vocabulary of 262,144 has half a million merges.
class Merges {
 public:
  // `left` and `right`, side by side, become `id`; a pair that has been added already takes the new rank and id.
  void Add(int32_t left, int32_t right, int32_t rank, int32_t id);
  // Whether some pair with a merge satisfies `holds(left, right)`.
  bool AnyPair(const std::function<bool(int32_t, int32_t)>& holds) const;
  // Merges neighbours among `symbols` until no two of them have a merge. O(n log n).
  void Apply(std::vector<int32_t>& symbols) const;

 private:
  static constexpr uint64_t kNoPair = UINT64_MAX;
  struct Merge {
    uint64_t pair = kNoPair;  // left id in the high half, right id in the low one
    int32_t rank = INT32_MAX, id = -1;
  };
  static uint64_t PairOf(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // A cache line of merges, filled from its beginning. A pair whose bucket is full lies in the next one with room.
  struct alignas(64) Bucket {
    std::array<Merge, 4> merges;
  };
  using Buckets = std::vector<Bucket, HugePageAllocator<Bucket>>;

  // The hash is seeded: no file can choose ids whose pairs collide.
  size_t BucketOf(uint64_t pair) const { return absl::HashOf(pair) & (buckets_.size() - 1); }
  // One of the filter's bits.
  size_t BitOf(uint64_t pair) const { return pair * 0x9e3779b97f4a7c15u >> filter_shift_; }
  bool MayHave(uint64_t pair) const { return filter_[BitOf(pair) / 64] >> BitOf(pair) % 64 & 1; }
  void SetBit(uint64_t pair) { filter_[BitOf(pair) / 64] |= uint64_t{1} << BitOf(pair) % 64; }
  // The pair's place, or the free one where it belongs.
  Merge* Find(uint64_t pair);
  // The pair's merge; id -1 and the highest rank if it has none.
  const Merge& Find(int32_t left, int32_t right) const;
  void Prefetch(int32_t left, int32_t right) const {
    const uint64_t pair = PairOf(left, right);
    if (MayHave(pair)) __builtin_prefetch(&buckets_[BucketOf(pair)]);
  }
  void Grow();

  void ApplyByScan(std::vector<int32_t>& symbols) const;
  void ApplyByHeap(std::vector<int32_t>& symbols) const;

  Buckets buckets_ = Buckets(1);  // a power of two of them
  // A bit for each pair that has a merge, 32 bits for a bucket: it fits a core's own cache, and most pairs that have no
  // merge are known by it.
  static constexpr size_t kFilterBits = 32;
  std::vector<uint64_t> filter_ = {0};
  int filter_shift_ = 64 - 6;  // of a hash, so that a bit of the filter is left
  size_t count_ = 0;           // merges, for which at most three quarters of the places are used
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_MERGES_H_
