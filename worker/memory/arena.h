// Memory that is planned, reserved once, and then only handed out.
//
// A MemoryPlan is rows: every buffer of a run, by name, with its space, category and size. An Arena reserves the sum of
// a space's rows in one piece and hands each row out by name, one after another; what is measured is what was planned,
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

namespace zerofleet::memory {

enum class Space : uint8_t { kDevice, kHost };
enum class Category : uint8_t { kParameters, kGradients, kOptimizer, kActivations, kGathered, kBuffers };
inline constexpr int kCategories = 6;

const char* SpaceName(Space space);           // "device" | "host", as metrics and reports spell it
const char* CategoryName(Category category);  // "parameters", "gradients", ...

struct MemoryRow {
  Space space;
  Category category;
  std::string name;
  int64_t bytes;
  bool late = false;  // a run may do without it, so it is reserved only when it is taken (Arena::TakeLate)
};

struct MemoryPlan {
  std::vector<MemoryRow> rows;

  int64_t Bytes(Space space) const;
  int64_t Bytes(Space space, Category category) const;
};

struct CategoryUse {
  int64_t current = 0, peak = 0;  // bytes as requested
};

struct ArenaFigures {
  int64_t reserved = 0, allocated = 0, largest_free_block = 0;
  std::array<CategoryUse, kCategories> categories;

  // 1 - largest free block / total free; 0 when nothing is free. An arena's free memory is one block, the rows that are
  // not handed out yet, so this is 0: planned memory does not fragment. It measures allocators that take memory back.
  double FragmentationRatio() const;
};

class Arena {
 public:
  // Reserves the plan's rows of `space` on `device`, late ones excepted; ResourceExhausted, with the largest of these
  // rows, if they do not fit. `device` outlives the arena.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(const MemoryPlan& plan, Space space, device::Device& device);

  // The row's memory, zeroed, aligned to 64 bytes. Each row is taken once. Thread-safe.
  std::byte* Take(const std::string& name);
  // The same of a late row, which is reserved now: seconds for tens of GB of pinned memory, during which other calls
  // don't wait. ResourceExhausted, with its name, if it does not fit; it may then be tried again. Who shares the memory
  // may outlive the arena.
  absl::StatusOr<std::shared_ptr<device::Reservation>> TakeLate(const std::string& name);
  // A late row that has the memory which an earlier arena reserved for a row of this size.
  void KeepLate(const std::string& name, std::shared_ptr<device::Reservation> kept);
  template <typename T>
  T* TakeAs(const std::string& name) {
    return reinterpret_cast<T*>(Take(name));
  }

  // A late row counts as reserved from when it is taken.
  ArenaFigures figures() const;

 private:
  Arena(Space space, device::Device& device, std::unique_ptr<device::Reservation> reservation,
        std::map<std::string, MemoryRow> rows);

  MemoryRow Claim(const std::string& name, bool late) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(const MemoryRow& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Space space_;
  device::Device& device_;
  const std::unique_ptr<device::Reservation> reservation_;
  mutable absl::Mutex mutex_;
  std::map<std::string, MemoryRow> left_ ABSL_GUARDED_BY(mutex_);  // rows not taken yet, by name
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;                       // bytes from the reservation's begin
  std::vector<std::shared_ptr<device::Reservation>> late_ ABSL_GUARDED_BY(mutex_);
  std::array<CategoryUse, kCategories> categories_ ABSL_GUARDED_BY(mutex_);
};

// Peak resident set of this process in bytes, as the kernel counts it; 0 if it cannot be read.
int64_t PeakResidentBytes();

}  // namespace zerofleet::memory

#endif  // ZEROFLEET_WORKER_MEMORY_ARENA_H_
