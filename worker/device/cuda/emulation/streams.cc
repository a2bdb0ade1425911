// See streams.h. The functions of the CUDA runtime on streams and events are at the end.
#include "worker/device/cuda/emulation/streams.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/clock.h"
#include "worker/device/cuda/emulation/machine.h"
#include "worker/device/cuda/emulation/virtual_time.h"

namespace zerofleet::device::cuda::emulation {
namespace {

// One recording of an event. Guarded by the scheduler's lock, except `virtual_time`, which is set when it is enqueued.
struct Mark {
  bool reached = false;
  double seconds = 0;
  int64_t virtual_time = 0;
};

// An operation in a stream's queue: one of the two functions is set.
struct QueuedOperation {
  std::function<void()> work;                   // called without the lock, while its stream is marked busy
  std::function<Progress()> step;               // called under the lock
  int64_t virtual_begin = 0, virtual_cost = 0;  // begins no earlier, and takes as long
};

}  // namespace
}  // namespace zerofleet::device::cuda::emulation

// Guarded by the scheduler's lock, except `device`.
struct CUstream_st {
  int device;
  bool busy = false, destroyed = false;
  int64_t virtual_end = 0;  // of everything enqueued
  std::deque<zerofleet::device::cuda::emulation::QueuedOperation> queue = {};

  bool idle() const { return queue.empty() && !busy; }
};

struct CUevent_st {
  int device;
  unsigned flags;
  std::shared_ptr<zerofleet::device::cuda::emulation::Mark> mark = nullptr;  // the latest recording
};

namespace zerofleet::device::cuda::emulation {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);
// A wait is taken to be endless when nothing at all happens for this many looks.
constexpr int kMostIdleLooks = 600;

class StreamScheduler {
 public:
  static StreamScheduler& Get() {
    static StreamScheduler& scheduler = *new StreamScheduler;  // outlives every thread
    return scheduler;
  }

  StreamScheduler() {
    if (const char* seed = std::getenv("ZEROFLEET_EMULATION_SEED")) SetSeed(std::strtoull(seed, nullptr, 10));
  }

  void SetEager() {
    absl::MutexLock lock(&mutex_);
    eager_ = true;
  }
  void SetSeed(uint64_t seed) {
    absl::MutexLock lock(&mutex_);
    eager_ = false;
    random_.seed(seed);
    enqueue_percent_ = std::array{0u, 10u, 50u}[random_() % 3];
    overtake_percent_ = std::array{2u, 15u, 60u}[random_() % 3];
    asked_most_ = std::array{4u, 16u, 64u}[random_() % 3];
  }

  cudaStream_t Create(int device) {
    absl::MutexLock lock(&mutex_);
    streams_.push_back(new CUstream_st{.device = device});
    return streams_.back();
  }

  // Destroys the stream once everything enqueued on it has run.
  void Destroy(cudaStream_t stream) {
    absl::MutexLock lock(&mutex_);
    stream->destroyed = true;
    Reap(stream);
  }

  // The legacy default stream of a device.
  cudaStream_t DefaultStream(int device) {
    {
      absl::MutexLock lock(&mutex_);
      for (const auto& [of, stream] : defaults_) {
        if (of == device) return stream;
      }
    }
    const cudaStream_t stream = Create(device);
    absl::MutexLock lock(&mutex_);
    defaults_.emplace_back(device, stream);
    return stream;
  }

  // `mark`, if set, gets the virtual time at which the operation ends.
  void Add(cudaStream_t stream, QueuedOperation operation, Mark* mark = nullptr) {
    absl::MutexLock lock(&mutex_);
    stream->virtual_end = std::max({stream->virtual_end, HostTime(), operation.virtual_begin}) + operation.virtual_cost;
    if (mark != nullptr) mark->virtual_time = stream->virtual_end;
    stream->queue.push_back(std::move(operation));
    changed_.SignalAll();
    if (eager_) {
      // Runs until the stream is idle or blocked; another thread may be running its operation.
      while (!stream->idle()) {
        if (RunOne()) continue;
        if (!AnyBusy()) return;
        changed_.WaitWithTimeout(&mutex_, kLook);
      }
    } else if (Chance(enqueue_percent_)) {
      for (auto count = random_() % 4; count > 0 && RunOne(); --count) {
      }
    }
  }

  bool Ask(absl::FunctionRef<bool()> reached) {
    absl::MutexLock lock(&mutex_);
    if (eager_) {
      while (RunOne()) {
      }
    } else {
      for (auto count = random_() % asked_most_; count > 0 && RunOne(); --count) {
      }
    }
    return reached();
  }

  void Await(absl::FunctionRef<bool()> reached) {
    absl::MutexLock lock(&mutex_);
    int idle_looks = 0;
    while (!reached()) {
      const bool idle = !RunOne() && changed_.WaitWithTimeout(&mutex_, kLook);
      if (!idle) idle_looks = 0;
      ZF_CHECK(!idle || AnyBusy() || ++idle_looks < kMostIdleLooks);  // else the wait would never end
    }
  }

  void Drain() {
    absl::MutexLock lock(&mutex_);
    while (RunOne() || AnyBusy()) {
      if (AnyBusy()) changed_.WaitWithTimeout(&mutex_, kLook);
    }
  }

  void Wake() {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  }

  // Whether all streams of `device` are idle.
  bool Idle(int device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::all_of(streams_.begin(), streams_.end(),
                       [&](cudaStream_t stream) { return stream->device != device || stream->idle(); });
  }

  absl::Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

 private:
  bool Chance(unsigned percent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return random_() % 100 < percent; }
  bool AnyBusy() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::any_of(streams_.begin(), streams_.end(), [](cudaStream_t stream) { return stream->busy; });
  }

  void Reap(cudaStream_t stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!stream->destroyed || !stream->idle()) return;
    std::erase(streams_, stream);
    delete stream;
  }

  // Runs the first operation that can run, from the first stream that has one. By seed, the order of streams stays the
  // same for a while and then changes: a stream may lag for a long time, or get far ahead of the others.
  bool RunOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!eager_ && Chance(overtake_percent_)) std::shuffle(streams_.begin(), streams_.end(), random_);
    for (const cudaStream_t stream : streams_) {
      if (stream->busy || stream->queue.empty()) continue;
      if (QueuedOperation& next = stream->queue.front(); next.step) {
        const Progress progress = next.step();
        if (progress == Progress::kBlocked) continue;
        if (progress == Progress::kDone) stream->queue.pop_front();
      } else {
        const std::function<void()> work = std::move(next.work);
        stream->busy = true;
        mutex_.Unlock();
        work();
        mutex_.Lock();
        stream->busy = false;
        stream->queue.pop_front();
      }
      changed_.SignalAll();
      Reap(stream);
      return true;
    }
    return false;
  }

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<cudaStream_t> streams_ ABSL_GUARDED_BY(mutex_);  // in the order in which RunOne tries them
  std::vector<std::pair<int, cudaStream_t>> defaults_ ABSL_GUARDED_BY(mutex_);
  bool eager_ ABSL_GUARDED_BY(mutex_) = true;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  unsigned enqueue_percent_ ABSL_GUARDED_BY(mutex_) = 0, overtake_percent_ ABSL_GUARDED_BY(mutex_) = 0;
  unsigned asked_most_ ABSL_GUARDED_BY(mutex_) = 1;  // a query runs fewer operations than this
};

int CurrentDevice() {
  int device = 0;
  cudaGetDevice(&device);
  return device;
}

cudaStream_t Actual(cudaStream_t stream) {
  return stream == nullptr ? StreamScheduler::Get().DefaultStream(CurrentDevice()) : stream;
}

bool OnCurrentDevice(cudaStream_t stream) { return stream == nullptr || stream->device == CurrentDevice(); }

}  // namespace

void ScheduleEagerly() {
  StreamScheduler::Get().SetEager();
  DrainStreams();
}
void ScheduleBySeed(uint64_t seed) { StreamScheduler::Get().SetSeed(seed); }

void Enqueue(cudaStream_t stream, std::function<void()> work) {
  StreamScheduler::Get().Add(Actual(stream),
                             {.work = std::move(work), .step = nullptr, .virtual_cost = CurrentCosts().kernel});
}
void EnqueueCopy(cudaStream_t stream, const void* from, int64_t link_bytes, std::function<void()> copy) {
  StreamScheduler::Get().Add(Actual(stream), {.work = std::move(copy),
                                              .step = nullptr,
                                              .virtual_begin = WrittenAt(from),
                                              .virtual_cost = link_bytes * CurrentCosts().link_byte});
}
void EnqueueSteps(cudaStream_t stream, std::function<Progress()> step) {
  StreamScheduler::Get().Add(Actual(stream), {.work = nullptr, .step = std::move(step)});
}
namespace {

constexpr int kMostDevices = 64;
std::array<std::atomic<int>, kMostDevices> collectives_in_flight = {};
std::atomic<int64_t> busy_waits = 0;

}  // namespace

void CountCollective(cudaStream_t stream, int change) {
  collectives_in_flight[stream->device % kMostDevices] += change;
}
int CollectivesInFlight(cudaStream_t stream) { return collectives_in_flight[stream->device % kMostDevices]; }
unsigned EventFlags(cudaEvent_t event) { return event->flags; }
int64_t BusyWaits() { return busy_waits; }
void WakeStreams() { StreamScheduler::Get().Wake(); }
void DrainStreams() { StreamScheduler::Get().Drain(); }

}  // namespace zerofleet::device::cuda::emulation

using namespace zerofleet::device::cuda::emulation;  // NOLINT: the functions below are CUDA's own, in no namespace

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (const cudaError_t error = MachineError(); error != cudaSuccess) return ReturnError(error);
  *stream = StreamScheduler::Get().Create(CurrentDevice());
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream != nullptr) StreamScheduler::Get().Destroy(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream = Actual(stream);
  StreamScheduler::Get().Await([&] {
    if (stream->idle()) AwaitHostTime(stream->virtual_end);
    return stream->idle();
  });
  return ReturnError(MachineError());
}

cudaError_t cudaDeviceSynchronize() {
  StreamScheduler& scheduler = StreamScheduler::Get();
  const int device = CurrentDevice();
  scheduler.Await([&] {
    scheduler.mutex().AssertHeld();
    return scheduler.Idle(device);
  });
  return ReturnError(MachineError());
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  stream = Actual(stream);
  const bool idle = StreamScheduler::Get().Ask([&] { return stream->idle(); });
  return ReturnError(idle ? MachineError() : cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event == nullptr) return ReturnError(cudaErrorInvalidResourceHandle);
  // Waits for the event's current recording, since the event may be recorded again before the stream gets here. An
  // event that was never recorded is not waited for.
  if (event->mark != nullptr) {
    StreamScheduler::Get().Add(
        Actual(stream), {.work = nullptr,
                         .step = [mark = event->mark] { return mark->reached ? Progress::kDone : Progress::kBlocked; },
                         .virtual_begin = event->mark->virtual_time});
  }
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (!OnCurrentDevice(stream)) return ReturnError(cudaErrorInvalidResourceHandle);
  Enqueue(stream, [=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = MachineError(); error != cudaSuccess) return ReturnError(error);
  *event = new CUevent_st{.device = CurrentDevice(), .flags = flags};
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr || !OnCurrentDevice(stream) || event->device != CurrentDevice()) {
    return ReturnError(cudaErrorInvalidResourceHandle);
  }
  event->mark = std::make_shared<Mark>();
  const auto reach = [mark = event->mark] {
    mark->reached = true;
    mark->seconds = zerofleet::Clock::Real().MonotonicSeconds();
    return Progress::kDone;
  };
  StreamScheduler::Get().Add(Actual(stream), {.work = nullptr, .step = reach}, event->mark.get());
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event == nullptr) return ReturnError(cudaErrorInvalidResourceHandle);
  const bool reached = StreamScheduler::Get().Ask([&] { return event->mark == nullptr || event->mark->reached; });
  if (reached && event->mark != nullptr) AwaitHostTime(event->mark->virtual_time);
  return ReturnError(reached ? MachineError() : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return ReturnError(cudaErrorInvalidResourceHandle);
  bool keeps_busy = (event->flags & cudaEventBlockingSync) == 0;
  StreamScheduler::Get().Await([&] {
    const bool reached = event->mark == nullptr || event->mark->reached;
    if (!reached && std::exchange(keeps_busy, false)) ++busy_waits;
    return reached;
  });
  if (event->mark != nullptr) AwaitHostTime(event->mark->virtual_time);
  return ReturnError(MachineError());
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (begin == nullptr || end == nullptr || begin->mark == nullptr || end->mark == nullptr ||
      begin->device != end->device || ((begin->flags | end->flags) & cudaEventDisableTiming) != 0) {
    return ReturnError(cudaErrorInvalidResourceHandle);
  }
  absl::MutexLock lock(&StreamScheduler::Get().mutex());
  if (!begin->mark->reached || !end->mark->reached) return ReturnError(cudaErrorNotReady);
  const double seconds = VirtualTimePasses()
                             ? static_cast<double>(end->mark->virtual_time - begin->mark->virtual_time) * 1e-6
                             : end->mark->seconds - begin->mark->seconds;
  *milliseconds = static_cast<float>(seconds * 1e3);
  return cudaSuccess;
}
