// Best fit within cached segments; see caching_allocator.h.
#include "bench/caching_allocator.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/units.h"

namespace zerofleet::bench {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGranule = 512;
constexpr int64_t kLargestSmall = kMiB, kSmallSegment = 2 * kMiB;
constexpr int64_t kLargestShared = 10 * kMiB, kSharedSegment = 20 * kMiB, kOwnSegmentGranule = 2 * kMiB;

}  // namespace

bool CachingAllocator::IsSmall(int64_t bytes) { return bytes <= kLargestSmall; }

int64_t CachingAllocator::SegmentBytes(int64_t bytes) {
  if (IsSmall(bytes)) return kSmallSegment;
  return bytes < kLargestShared ? kSharedSegment : RoundUp(bytes, kOwnSegmentGranule);
}

bool CachingAllocator::Allocate(int64_t tensor, int64_t bytes) {
  bytes = RoundUp(std::max<int64_t>(bytes, 1), kGranule);
  Pool& pool = pools_[IsSmall(bytes) ? 0 : 1];
  auto found = BestFit(pool, bytes);
  if (found == pool.end()) {
    if (!AddSegment(bytes)) return false;
    found = BestFit(pool, bytes);
  }
  const Blocks::iterator block = *found;
  pool.erase(found);
  const int64_t rest = block->bytes - bytes;
  if (IsSmall(bytes) ? rest >= kGranule : rest > kLargestSmall) {
    block->bytes = bytes;
    pool.insert(blocks_.insert(std::next(block), {rest, ++last_number_, block->segment, true}));
  }
  block->is_free = false;
  allocated_ += block->bytes;
  ZF_CHECK(tensors_.emplace(tensor, block).second);
  return true;
}

void CachingAllocator::Free(int64_t tensor) {
  const auto found = tensors_.find(tensor);
  ZF_CHECK(found != tensors_.end());
  Blocks::iterator block = found->second;
  tensors_.erase(found);
  allocated_ -= block->bytes;
  block->is_free = true;
  Pool& pool = PoolOf(*block);
  const auto joins = [&](Blocks::iterator other) { return other->is_free && other->segment == block->segment; };
  const Blocks::iterator next = std::next(block);
  if (next != blocks_.end() && joins(next)) {
    pool.erase(next);
    block = JoinNext(block);
  }
  if (block != blocks_.begin() && joins(std::prev(block))) {
    block = std::prev(block);
    pool.erase(block);
    block = JoinNext(block);
  }
  pool.insert(block);
}

memory::ArenaFigures CachingAllocator::figures() const {
  memory::ArenaFigures figures;
  figures.reserved = limit_;
  figures.allocated = allocated_;
  figures.largest_free_block = limit_ - reserved_;
  for (const Pool& pool : pools_) {
    if (!pool.empty()) figures.largest_free_block = std::max(figures.largest_free_block, (*pool.rbegin())->bytes);
  }
  return figures;
}

CachingAllocator::Pool::iterator CachingAllocator::BestFit(Pool& pool, int64_t bytes) {
  Blocks wanted = {{bytes, 0, 0, true}};
  return pool.lower_bound(wanted.begin());
}

bool CachingAllocator::AddSegment(int64_t bytes) {
  const int64_t segment = SegmentBytes(bytes);
  if (reserved_ + segment > limit_) GiveBackFreeSegments();
  if (reserved_ + segment > limit_) return false;
  reserved_ += segment;
  const int64_t number = ++last_number_;
  if (IsSmall(bytes)) small_segments_.insert(number);
  pools_[IsSmall(bytes) ? 0 : 1].insert(blocks_.insert(blocks_.end(), {segment, number, number, true}));
  return true;
}

void CachingAllocator::GiveBackFreeSegments() {
  for (Pool& pool : pools_) {
    std::erase_if(pool, [this](const Blocks::iterator& block) {
      if (!IsWholeSegment(block)) return false;
      reserved_ -= block->bytes;
      blocks_.erase(block);
      return true;
    });
  }
}

bool CachingAllocator::IsWholeSegment(Blocks::iterator block) {
  const bool first = block == blocks_.begin() || std::prev(block)->segment != block->segment;
  const bool last = std::next(block) == blocks_.end() || std::next(block)->segment != block->segment;
  return first && last;
}

CachingAllocator::Blocks::iterator CachingAllocator::JoinNext(Blocks::iterator block) {
  const auto next = std::next(block);
  block->bytes += next->bytes;
  blocks_.erase(next);
  return block;
}

}  // namespace zerofleet::bench
