// A model, without any memory, of PyTorch's caching allocator for GPU memory, after its documented rules and default
// settings. `zerofleet bench fragmentation` replays a trace of allocations on it.
//
// Memory comes from the device in segments and is kept. A request is rounded up to 512 bytes. One of at most 1 MiB is
// served from segments of 2 MiB; a larger one from segments of 20 MiB, or, from 10 MiB on, of its own size rounded up
// to 2 MiB. The smallest free block that is large enough is taken, and split if what is left is worth it (512 bytes in
// small segments, more than 1 MiB in large ones). A freed block joins its free neighbours of the same segment. If the
// device has no room for a segment, all completely free segments are given back first.
#ifndef ZEROFLEET_BENCH_CACHING_ALLOCATOR_H_
#define ZEROFLEET_BENCH_CACHING_ALLOCATOR_H_

#include <array>
#include <cstdint>
#include <list>
#include <set>
#include <unordered_map>
#include <utility>

#include "worker/memory/arena.h"

namespace zerofleet::bench {

class CachingAllocator {
 public:
  // `limit` is the device's memory in bytes.
  explicit CachingAllocator(int64_t limit) : limit_(limit) {}

  // Returns false if out of memory. `tensor` is a number that the caller chooses and that is not in use.
  bool Allocate(int64_t tensor, int64_t bytes);
  void Free(int64_t tensor);

  int64_t allocated() const { return allocated_; }  // bytes of blocks in use
  // Figures of the memory taken from the device, without categories. The fragmentation ratio is over all free memory:
  // free blocks in segments, and the rest of the device as one block.
  memory::ArenaFigures figures() const;

 private:
  struct Block {
    int64_t bytes;
    int64_t number;  // orders blocks of the same size; older ones are taken first
    int64_t segment;
    bool is_free;
  };
  using Blocks = std::list<Block>;  // of all segments; blocks of one segment are adjacent
  struct Smaller {
    bool operator()(const Blocks::iterator& a, const Blocks::iterator& b) const {
      return std::pair(a->bytes, a->number) < std::pair(b->bytes, b->number);
    }
  };
  using Pool = std::set<Blocks::iterator, Smaller>;  // free blocks

  static bool IsSmall(int64_t bytes);
  static int64_t SegmentBytes(int64_t bytes);
  Pool& PoolOf(const Block& block) { return pools_[small_segments_.contains(block.segment) ? 0 : 1]; }
  Pool::iterator BestFit(Pool& pool, int64_t bytes);
  bool AddSegment(int64_t bytes);
  void GiveBackFreeSegments();
  bool IsWholeSegment(Blocks::iterator block);
  Blocks::iterator JoinNext(Blocks::iterator block);  // the next block becomes part of this one

  const int64_t limit_;
  int64_t reserved_ = 0, allocated_ = 0, last_number_ = 0;
  Blocks blocks_;
  std::array<Pool, 2> pools_;  // the pool of small segments, the pool of large ones
  std::set<int64_t> small_segments_;
  std::unordered_map<int64_t, Blocks::iterator> tensors_;
};

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_CACHING_ALLOCATOR_H_
