// Where buffers lie in one piece of memory so that those which are never in use together may share it (ZeRO §6.3, M_D).
//
// A step is a number of phases, in their order. A buffer is one run of bytes; of its pieces, one after another, each is
// in use from one phase to another. Two buffers may have memory in common as long as no two of their pieces have that
// and a phase, too. So gradients, which the backward makes from the last block to the first, can lie where it
// leaves the activations of blocks that it is through with. A phase itself means nothing here.
#ifndef ZEROFLEET_WORKER_MEMORY_PLACEMENT_H_
#define ZEROFLEET_WORKER_MEMORY_PLACEMENT_H_

#include <cstdint>
#include <limits>
#include <vector>

namespace zerofleet::memory {

struct Piece {
  int64_t bytes;
  int first = 0, last = kLastPhase;  // phases in which it is in use

  static constexpr int kLastPhase = std::numeric_limits<int>::max();  // the end of the step, however many there are
};

// The bytes of all its pieces.
int64_t PieceBytes(const std::vector<Piece>& pieces);

struct Placement {
  std::vector<int64_t> offsets;  // of each buffer, in the order given
  int64_t extent = 0;            // bytes from the first buffer's begin to the last one's end
};

// Each buffer at the lowest place that is free of those placed before it: first what is in use in every phase, in the
// order given, then those of several pieces, in the order of all orders that takes least, then the others, the largest
// first.
inline constexpr int64_t kPlaceAlignment = 64;  // of every offset
Placement Place(const std::vector<std::vector<Piece>>& buffers);

// What is in use of memory in the phase that uses most of it.
struct Use {
  int64_t bytes = 0;
  int64_t largest_gap = 0;  // between what is in use, and behind it, up to the extent
};
Use MostInUse(const std::vector<std::vector<Piece>>& buffers, const std::vector<int64_t>& offsets, int64_t extent);

}  // namespace zerofleet::memory

#endif  // ZEROFLEET_WORKER_MEMORY_PLACEMENT_H_
