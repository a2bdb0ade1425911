// The table of merges, and merging few and many symbols; see merges.h.
#include "worker/text/merges.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <utility>

namespace zerofleet::text {
namespace {

// Up to this number of symbols, looking at every pair for each merge is faster than a heap.
constexpr size_t kScannedSymbols = 32;

}  // namespace

Merges::Merge* Merges::Find(uint64_t pair) {
  for (size_t bucket = BucketOf(pair);; bucket = (bucket + 1) & (buckets_.size() - 1)) {
    for (Merge& merge : buckets_[bucket].merges) {
      if (merge.pair == pair || merge.pair == kNoPair) return &merge;
    }
  }
}

const Merges::Merge& Merges::Find(int32_t left, int32_t right) const {
  static const Merge kNone;
  const uint64_t pair = PairOf(left, right);
  return MayHave(pair) ? *const_cast<Merges*>(this)->Find(pair) : kNone;
}

void Merges::Add(int32_t left, int32_t right, int32_t rank, int32_t id) {
  Merge* merge = Find(PairOf(left, right));
  if (merge->pair == kNoPair && ++count_ > buckets_.size() * 3) {
    Grow();
    merge = Find(PairOf(left, right));
  }
  *merge = {PairOf(left, right), rank, id};
  SetBit(merge->pair);
}

void Merges::Grow() {
  const auto before = std::exchange(buckets_, Buckets(buckets_.size() * 2));
  filter_.assign(std::max<size_t>(1, buckets_.size() * kFilterBits / 64), 0);
  filter_shift_ = 64 - std::countr_zero(filter_.size() * 64);
  for (const Bucket& bucket : before) {
    for (const Merge& merge : bucket.merges) {
      if (merge.pair == kNoPair) continue;
      *Find(merge.pair) = merge;
      SetBit(merge.pair);
    }
  }
}

bool Merges::AnyPair(const std::function<bool(int32_t, int32_t)>& holds) const {
  return std::ranges::any_of(buckets_, [&](const Bucket& bucket) {
    return std::ranges::any_of(bucket.merges, [&](const Merge& merge) {
      return merge.pair != kNoPair && holds(static_cast<int32_t>(merge.pair >> 32), static_cast<int32_t>(merge.pair));
    });
  });
}

void Merges::Apply(std::vector<int32_t>& symbols) const {
  symbols.size() <= kScannedSymbols ? ApplyByScan(symbols) : ApplyByHeap(symbols);
}

// Looks up the rank of each pair once: a merge changes only the pairs beside it.
void Merges::ApplyByScan(std::vector<int32_t>& symbols) const {
  size_t count = symbols.size();
  struct RankAndId {
    int32_t rank = INT32_MAX, id = -1;
  };
  std::array<RankAndId, kScannedSymbols> merges;  // each symbol's merge with the next symbol
  const auto prefetch = [&](size_t at) {
    if (at + 1 < count) Prefetch(symbols[at], symbols[at + 1]);
  };
  const auto look_up = [&](size_t at) {
    merges[at] = {};
    if (at + 1 >= count) return;
    const Merge& merge = Find(symbols[at], symbols[at + 1]);
    merges[at] = {merge.rank, merge.id};
  };
  for (size_t at = 0; at < count; ++at) prefetch(at);
  for (size_t at = 0; at < count; ++at) look_up(at);
  while (count > 1) {
    size_t best = 0;
    for (size_t at = 1; at + 1 < count; ++at) {
      if (merges[at].rank < merges[best].rank) best = at;
    }
    if (merges[best].id < 0) break;
    symbols[best] = merges[best].id;
    for (size_t at = best + 1; at + 1 < count; ++at) symbols[at] = symbols[at + 1], merges[at] = merges[at + 1];
    --count;
    prefetch(best);
    if (best > 0) look_up(best - 1);
    look_up(best);
  }
  symbols.resize(count);
}

void Merges::ApplyByHeap(std::vector<int32_t>& symbols) const {
  struct Candidate {
    int32_t rank;
    size_t at;
    int32_t id;
    bool operator>(const Candidate& other) const { return std::pair(rank, at) > std::pair(other.rank, other.at); }
  };
  const size_t count = symbols.size();
  std::vector<size_t> next(count), previous(count);
  std::vector<Candidate> initial;
  for (size_t at = 0; at < count; ++at) {
    next[at] = at + 1;
    previous[at] = at - 1;
    if (at + 1 == count) break;
    const Merge& merge = Find(symbols[at], symbols[at + 1]);
    if (merge.id >= 0) initial.push_back({merge.rank, at, merge.id});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>(), std::move(initial));
  const auto add = [&](size_t at, size_t after) {
    const Merge& merge = Find(symbols[at], symbols[after]);
    if (merge.id >= 0) queue.push({merge.rank, at, merge.id});
  };
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    if (symbols[top.at] < 0 || next[top.at] == count) continue;
    const size_t right = next[top.at];
    if (Find(symbols[top.at], symbols[right]).id != top.id) continue;  // one of the two has been merged since
    symbols[top.at] = top.id;
    symbols[right] = -1;
    next[top.at] = next[right];
    if (next[right] < count) previous[next[right]] = top.at;
    if (top.at != 0) add(previous[top.at], top.at);
    if (next[top.at] < count) add(top.at, next[top.at]);
  }
  std::erase(symbols, -1);
}

}  // namespace zerofleet::text
