// States that rest in a file (offload.optimizer: nvme) and come into memory one tile at a time.
//
// A tile's vectors lie one after another, each beginning at a block. Tiles are opened in their order; while one is
// open, a thread of this object reads the next and writes the previous one: three tiles of memory serve any number of
// tiles. What is read is compared with the digest of what was written, so wrong bytes from a disk are detected before
// they are used.
#ifndef ZEROFLEET_WORKER_ZERO_STATE_FILE_H_
#define ZEROFLEET_WORKER_ZERO_STATE_FILE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/digest.h"
#include "worker/memory/arena.h"
#include "worker/memory/scratch_file.h"
#include "worker/optim/optimizer.h"
#include "worker/zero/job_queue.h"
#include "worker/zero/layout.h"
#include "worker/zero/state_tiles.h"

namespace zerofleet::zero {

class StateFile {
 public:
  static std::vector<memory::MemoryRow> Rows(const ZeroLayout& layout);
  // The bytes that the layout's states on the host take; at least one block.
  static int64_t FileBytes(const ZeroLayout& layout);

  // `file` has FileBytes; `host_arena` is made from a plan with those rows.
  StateFile(const ZeroLayout& layout, memory::ScratchFile& file, memory::Arena& host_arena);

  const std::vector<StateTile>& tiles() const { return tiles_; }

  // A set of state vectors, one bit each, in their order.
  using Vectors = uint32_t;
  static constexpr Vectors kAllVectors = ~Vectors{0};

  // The tile's piece of every vector, valid until Close; only those in `vectors` have their values. `reads_on` promises
  // that the next tile opened is the following one, with the same vectors, or the first. DataLoss, with path, place and
  // vector, if the file does not hold what was written.
  absl::StatusOr<optim::StateTensors> Open(size_t tile, Vectors vectors = kAllVectors, bool reads_on = true);
  // As Open, for a tile whose vectors are all written before Close: nothing is read, and the memory has arbitrary
  // values.
  absl::StatusOr<optim::StateTensors> OpenToFill(size_t tile);
  // With `changed`, the vectors that were opened are written to the file.
  void Close(size_t tile, bool changed);

  // Copies elements [offset, offset + elements) of a state vector, all of them in tiles or in padding, out of the file
  // or into it; no tile may be open. Padding is not stored: CopyOut leaves its place in `to` as it is.
  absl::Status CopyOut(size_t vector, int64_t offset, int64_t elements, std::byte* to);
  absl::Status CopyIn(size_t vector, int64_t offset, int64_t elements, const std::byte* from);

  // Traffic with the file so far.
  int64_t bytes_read() const { return read_; }
  int64_t bytes_written() const { return written_; }

 private:
  static constexpr size_t kStages = 3;
  // A tile in memory.
  struct Stage {
    std::byte* memory = nullptr;
    enum class Use { kFree, kRead, kOpen } use = Use::kFree;
    size_t tile = 0;
    Vectors vectors = kAllVectors;
    int64_t job = 0;  // the last job that reads or writes this memory
  };

  Stage& StageOf(size_t tile) { return stages_[tile % kStages]; }
  optim::StateTensors Pieces(size_t tile, std::byte* memory) const;
  int64_t PieceBytes(size_t vector, size_t tile) const;  // in the file, rounded up to blocks
  // Called on the thread, for one vector's piece of a tile.
  absl::Status ReadPiece(size_t tile, size_t vector, std::byte* to);
  absl::Status WritePiece(size_t tile, size_t vector, std::byte* from);
  // Posts a job that calls `piece`, one of these two, for each of the stage's vectors of its tile.
  void Post(Stage& stage, absl::Status (StateFile::*piece)(size_t tile, size_t vector, std::byte* memory));
  void PostRead(size_t tile, Vectors vectors);
  // Calls, on the thread, `visit(tile, first element of it, count, done before)` for each run of elements within one
  // tile.
  using Visit = std::function<absl::Status(size_t tile, int64_t first, int64_t count, int64_t done)>;
  absl::Status OnTilesOf(int64_t offset, int64_t elements, const Visit& visit);

  const optim::OptimizerRow& optimizer_;
  const std::vector<StateTile> tiles_;
  memory::ScratchFile& file_;
  std::vector<int64_t> file_offset_;                // by tile
  std::vector<std::optional<DigestBits>> digests_;  // by tile and vector; used on the thread only
  std::byte* bounce_;                               // memory of one vector's piece; used on the thread only
  std::array<Stage, kStages> stages_;
  std::atomic<int64_t> read_ = 0, written_ = 0;
  JobQueue jobs_{/*has_thread=*/true};  // last: its thread uses what is above
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STATE_FILE_H_
