// Memory that is planned, reserved once, and then only handed out.
//
// A MemoryPlan is rows: every buffer of a run, by name, with its space, category and size, and when a step uses it. An
// Arena reserves room for a space's rows in one piece and hands each row out by name, at a place known from the plan
// (placement.h): rows that no phase of a step uses together may share memory. What is measured is what was planned,
// because there is nowhere else to get memory from. A late row is planned as well, but reserved by itself when it is
// taken. Rows live as long as the arena, which is a view; the memory of a late row may be kept for the next one's.
#ifndef ZEROFLEET_WORKER_MEMORY_ARENA_H_
#define ZEROFLEET_WORKER_MEMORY_ARENA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/device.h"
#include "worker/memory/placement.h"

namespace zerofleet::memory {

enum class Space : uint8_t { kDevice, kHost };
enum class Category : uint8_t { kParameters, kGradients, kOptimizer, kActivations, kGathered, kBuffers, kAverages };
inline constexpr int kCategories = 7;

const char* SpaceName(Space space);           // "device" | "host", as metrics and reports spell it
const char* CategoryName(Category category);  // "parameters", "gradients", ...

struct MemoryRow {
  Space space;
  Category category;
  std::string name;
  int64_t bytes;
  bool late = false;  // a run may do without it, so it is reserved only when it is taken (Arena::TakeLate)
  // The row's pieces, with the phases of a step that use each; they add up to its bytes. Empty: all of it is always in
  // use.
  std::vector<Piece> pieces = {};
};

struct MemoryPlan {
  std::vector<MemoryRow> rows;

  // The bytes that are reserved for all rows of a space: their sum less the bytes that they share.
  int64_t Bytes(Space space) const;
  int64_t SharedBytes(Space space) const;
  // The sum of a category's rows.
  int64_t Bytes(Space space, Category category) const;
};

struct CategoryUse {
  int64_t current = 0, peak = 0;  // bytes as requested
};

// `allocated` is what the rows handed out use in the phase of a step that uses most, each rounded up; free blocks are
// those of that phase.
struct ArenaFigures {
  int64_t reserved = 0, allocated = 0, largest_free_block = 0;
  std::array<CategoryUse, kCategories> categories;

  // 1 - largest free block / total free; 0 when nothing is free.
  double FragmentationRatio() const;
};

class Arena {
 public:
  // Reserves the plan's rows of `space` on `device`, late ones excepted; ResourceExhausted, with the largest of these
  // rows, if they do not fit. `device` must outlive the arena.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(const MemoryPlan& plan, Space space, device::Device& device);

  // Returns the row's memory, aligned to 64 bytes, and zeroed until a row that shares it is used. Each row is taken
  // once. Thread-safe.
  std::byte* Take(const std::string& name);
  // The same for a late row, which is reserved now: that takes seconds for tens of GB of pinned memory, during which
  // other calls don't wait. ResourceExhausted, with the row's name, if it does not fit; the call may then be tried
  // again. The returned memory may outlive the arena.
  absl::StatusOr<std::shared_ptr<device::Reservation>> TakeLate(const std::string& name);
  // Gives a late row the memory that an earlier arena reserved for a row of this size.
  void KeepLate(const std::string& name, std::shared_ptr<device::Reservation> kept);
  template <typename T>
  T* TakeAs(const std::string& name) {
    return reinterpret_cast<T*>(Take(name));
  }

  // A late row counts as reserved from when it is taken.
  ArenaFigures figures() const;

 private:
  struct PlacedRow {
    MemoryRow row;
    int64_t offset;  // in the reservation; meaningless for a late row
  };

  Arena(Space space, device::Device& device, std::unique_ptr<device::Reservation> reservation,
        std::map<std::string, PlacedRow> rows);

  PlacedRow Claim(const std::string& name, bool late) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(const MemoryRow& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Space space_;
  device::Device& device_;
  const std::unique_ptr<device::Reservation> reservation_;
  mutable absl::Mutex mutex_;
  std::map<std::string, PlacedRow> left_ ABSL_GUARDED_BY(mutex_);  // rows not taken yet, by name
  std::vector<std::vector<Piece>> taken_ ABSL_GUARDED_BY(mutex_);  // pieces of the rows taken
  std::vector<int64_t> taken_at_ ABSL_GUARDED_BY(mutex_);          // where each row taken begins
  std::vector<std::shared_ptr<device::Reservation>> late_ ABSL_GUARDED_BY(mutex_);
  std::array<CategoryUse, kCategories> categories_ ABSL_GUARDED_BY(mutex_);
};

// Peak resident set of this process in bytes, as the kernel counts it; 0 if it cannot be read.
int64_t PeakResidentBytes();

}  // namespace zerofleet::memory

#endif  // ZEROFLEET_WORKER_MEMORY_ARENA_H_
