// Where buffers lie in one piece of memory so that those which are never in use together may share it (ZeRO §6.3, M_D).
//
// A step is a sequence of phases. A buffer is one run of bytes, made of consecutive pieces, each of which is in use
// from one phase to another. Two buffers may overlap as long as no two of their overlapping pieces are in use in the
// same phase. So gradients, which the backward makes from the last block to the first, can lie where it leaves the
// activations of blocks that it has finished. What a phase stands for does not matter here.
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
  std::vector<int64_t> offsets;  // offset of each buffer, in the order given
  int64_t extent = 0;            // bytes from the first buffer's begin to the last one's end
};

// Places each buffer at the lowest place that is free of those placed before it: first buffers that are in use in every
// phase, in the order given, then those of several pieces, in the order that takes least memory (largest first if there
// are too many to try all), then the others, the largest first.
inline constexpr int64_t kPlaceAlignment = 64;  // every offset is a multiple of it
Placement Place(const std::vector<std::vector<Piece>>& buffers);

// Memory in use in the phase that uses most.
struct Use {
  int64_t bytes = 0;
  int64_t largest_gap = 0;  // the largest free run between the pieces in use, or after them up to the extent
};
Use MostInUse(const std::vector<std::vector<Piece>>& buffers, const std::vector<int64_t>& offsets, int64_t extent);

}  // namespace zerofleet::memory

#endif  // ZEROFLEET_WORKER_MEMORY_PLACEMENT_H_
