// Memory that is planned, reserved once, and then only handed out.
//
// A MemoryPlan is rows: every buffer of a run, by name, with its space, category and size. An Arena reserves the sum of
// a space's rows in one piece and hands each row out by name, one after another; what is measured is what was planned,
// because there is nowhere else to get memory from. Rows live as long as the arena, which is a whole run.
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

namespace zerofleet {

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
  // Reserves the plan's rows of `space` on `device`; ResourceExhausted, with the plan's largest row, if it does not
  // fit.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(const MemoryPlan& plan, Space space, Device& device);

  // The row's memory, zeroed, aligned to 64 bytes. Each row is taken once. Thread-safe.
  std::byte* Take(const std::string& name);
  template <typename T>
  T* TakeAs(const std::string& name) {
    return reinterpret_cast<T*>(Take(name));
  }

  ArenaFigures figures() const;

 private:
  Arena(std::unique_ptr<Reservation> reservation, std::map<std::string, MemoryRow> rows);

  const std::unique_ptr<Reservation> reservation_;
  mutable absl::Mutex mutex_;
  std::map<std::string, MemoryRow> left_ ABSL_GUARDED_BY(mutex_);  // rows not taken yet, by name
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;                       // bytes from the reservation's begin
  std::array<CategoryUse, kCategories> categories_ ABSL_GUARDED_BY(mutex_);
};

// Peak resident set of this process in bytes, as the kernel counts it; 0 if it cannot be read.
int64_t PeakResidentBytes();

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_MEMORY_ARENA_H_
