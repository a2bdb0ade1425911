// Blocks are claimed in order (thread_pool.cc), so a thread that waits for its turn waits only for blocks that are
// being computed.
#include "worker/device/cpu/row_sums.h"

#include <algorithm>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/units.h"

namespace zerofleet::device {
namespace {

constexpr int64_t kRowsPerPart = 64;

// The total, to which the blocks add in order.
class Total {
 public:
  explicit Total(int64_t count) : total_(static_cast<size_t>(count)) {}

  void AddInTurn(int64_t turn, const std::vector<float>& part) {
    absl::MutexLock lock(&mutex_);
    const auto is_next = [this, turn]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return next_ == turn; };
    mutex_.Await(absl::Condition(&is_next));
    for (size_t i = 0; i < total_.size(); ++i) total_[i] += part[i];
    ++next_;
  }

  const std::vector<float>& all() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return total_; }  // after the last AddInTurn

 private:
  absl::Mutex mutex_;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<float> total_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

void SumOverRows(ThreadPool& pool, int64_t rows, int64_t columns, std::span<float* const> sums,
                 absl::FunctionRef<void(int64_t begin, int64_t end, float* partial)> body) {
  const int64_t count = columns * static_cast<int64_t>(sums.size());
  Total total(count);
  pool.Run(CeilDivide(rows, kRowsPerPart), [&](int64_t turn, int) {
    const int64_t begin = turn * kRowsPerPart;
    std::vector<float> part(static_cast<size_t>(count));
    body(begin, std::min(rows, begin + kRowsPerPart), part.data());
    total.AddInTurn(turn, part);
  });
  const float* from = total.all().data();
  for (float* const sum : sums) {
    for (int64_t column = 0; sum != nullptr && column < columns; ++column) sum[column] += from[column];
    from += columns;
  }
}

}  // namespace zerofleet::device
