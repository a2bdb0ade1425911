// What a worker does in some steps, moment by moment: phases, ops, copies, collectives, as a file that Perfetto and
// Chrome's about:tracing open.
//
// A process of the file is a rank, its threads are the lanes below. Times are microseconds since the first span; the
// file says separately when that was by the Unix clock, since a double cannot hold Unix time in nanoseconds. `zerofleet
// train` puts the files of all ranks on one axis (cli/report/trace_parts.h).
#ifndef ZEROFLEET_WORKER_TRAINER_STEP_TRACE_H_
#define ZEROFLEET_WORKER_TRAINER_STEP_TRACE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "worker/collective/communicator.h"
#include "worker/device/device.h"
#include "worker/device/profile/op_sink.h"
#include "worker/zero/phases.h"

namespace zerofleet::trainer {

// Steps `first` to `last`, both included.
struct TracedSteps {
  int64_t first = 0, last = 0;
};

class StepTrace : public device::OpSink {
 public:
  // Keeps at most this many spans; the file says how many were dropped.
  static constexpr size_t kMostSpans = 1 << 20;

  // `complete` is called with the file's text when the last of the steps is done; again if a recovery repeats that
  // step.
  StepTrace(TracedSteps steps, const Clock& clock, std::function<void(const std::string& json)> complete);

  bool Wants(int64_t step) const { return step >= steps_.first && step <= steps_.last; }

  // Called when this worker enters a view as that rank.
  void Enter(int rank, uint64_t generation);
  // Called before a wanted step is launched: spans are kept from now on. Returns the event that the device's times must
  // refer to; the view's first call waits for the stream.
  absl::StatusOr<std::shared_ptr<device::Event>> Begin(device::Stream& stream);
  // Called when a wanted step is done; `spans` are its stream's, since Begin's event.
  void End(int64_t step, const std::vector<zero::PhaseSpan>& spans);
  // Adds an evaluation or a save that ends now; kept while steps are.
  void AddPause(std::string_view name, double seconds);

  // Called by any thread; kept from the first wanted step's Begin to the last one's End.
  void Add(std::string_view op, const device::OpCall& call) override;
  void AddCollective(const std::string& group, const collective::CollectiveRecord& record);

  std::string Json() const;

 private:
  enum class Lane : uint8_t { kSteps, kPhases, kOps, kCopies, kCollectives };
  struct Span {
    std::string name;
    double began, ended;  // monotonic
    int rank;
    int lane;               // number of a thread in the file
    std::string arguments;  // JSON members
  };

  // The file's thread for a lane; ops and copies have one for each thread, collectives for each group.
  int LaneOf(Lane lane, const std::string& title) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(int lane, std::string_view name, double began, double ended, std::string arguments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TracedSteps steps_;
  const Clock& clock_;
  const std::function<void(const std::string&)> complete_;
  std::atomic<bool> keeps_ = false;
  std::shared_ptr<device::Event> origin_;  // this view's first event; null before it
  double origin_seconds_ = 0;
  mutable absl::Mutex mutex_;
  int rank_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::thread::id, int> threads_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> lanes_ ABSL_GUARDED_BY(mutex_);  // by title
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_STEP_TRACE_H_
