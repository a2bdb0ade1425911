// Collectives among the ranks of one group.
//
// A Communicator runs the operations posted to it in the order they were posted, on its own thread, so that they
// overlap computation; every rank of the group must post the same sequence (the static schedule, zero/schedule.h).
// A backend implements the two Run* functions, called from that one thread, and, where its transport needs care while
// nothing is posted, Idle and Wake. An operation that fails aborts the communicator: the ranks no longer agree on what
// comes next.
//
// Order with device work: an operation touches its buffers only after the event `after`, and
// Pending::MakeStreamWait makes a stream continue after the operation. A backend that works on the device (nccl)
// overrides AwaitInputs and calls Issued, so that neither holds up the host: its operations follow each other on the
// device, and this thread follows each one to its end. The others wait on their own thread and complete on the host.
//
// topology.h defines how an array is split among the ranks, in which order sums are made and which routes bytes take.
// In a group of one team on one node an all-gather or a reduce-scatter of `count` elements sends count*(n-1)/n elements
// per rank, an all-reduce twice that.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_COMMUNICATOR_H_
#define ZEROFLEET_WORKER_COLLECTIVE_COMMUNICATOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/collective/sum.h"
#include "worker/collective/topology.h"
#include "worker/device/device.h"
#include "worker/device/tensor.h"

namespace zerofleet::collective {

enum class Operation : uint8_t { kAllGather, kReduceScatter, kAllReduce };
const char* OperationName(Operation operation);  // "all_gather", ... as metrics and reports spell it

// What a rank is doing in a group, for the coordinator: an operation that is late names the rank that has not arrived.
struct CollectiveProgress {
  std::string group;
  uint64_t sequence = 0;  // operations this rank has arrived at: all earlier ones are complete, its inputs there
  uint64_t completed = 0;
  Operation operation = Operation::kAllGather;  // the last that it has arrived at
  std::string unit;
};

// One operation in a communicator's flight record.
struct CollectiveFlight {
  uint64_t sequence = 0;
  Operation operation = Operation::kAllGather;
  std::string unit;
  int64_t gathered_bytes = 0;
  double began = 0, ended = 0;  // monotonic seconds; `ended` 0: still running
};

// Sums over completed operations since the communicator was made. `bytes` are those this rank sent, `to_other_nodes`
// the part of them that left its node; `seconds` from start to completion.
struct CollectiveTotals {
  int64_t calls = 0, bytes = 0, to_other_nodes = 0;
  double seconds = 0;
  int64_t gathered_bytes = 0;  // whole (gathered) size, from which bus bandwidth is computed
};

// What the observer receives, on the communicator's thread, after each completed operation; for histograms.
struct CollectiveRecord {
  Operation operation;
  std::string unit;
  Traffic traffic;
  int64_t gathered_bytes;
  double seconds;
};

class Communicator {
 public:
  // One posted operation. Copyable; Wait may be called from any thread, more than once.
  class Pending {
   public:
    Pending() = default;  // already complete, OK
    absl::Status Wait() const;
    // Makes what is enqueued on `stream` from now on run after the operation; returns once that is arranged: when the
    // operation has been issued to the device, or is complete. Wait returns a failure that comes later.
    absl::Status MakeStreamWait(device::Stream& stream) const;

   private:
    friend class Communicator;
    struct State;
    // Returns when the operation has been issued to the device, or is complete.
    void AwaitIssue() const;
    std::shared_ptr<State> state_;
  };

  using Observer = std::function<void(const CollectiveRecord&)>;

  // Stops after the operation in progress and those issued behind it, which wait for their peers; Abort first to leave
  // without them. Posted operations that have not started fail with Cancelled.
  virtual ~Communicator();

  int rank() const { return topology_.rank(); }
  int size() const { return topology_.size(); }
  const Topology& topology() const { return topology_; }
  const std::string& group() const { return group_; }  // "data" | "tensor"
  virtual std::string backend() const = 0;             // "shared_memory" | "ucx" | "in_process" | "nccl"

  // Buffers are borrowed until the operation completes. `unit` names what moves, for progress reports. No buffer is
  // touched before `after`, if set, is reached.

  // Gathers full(count) from each rank's shard. `shard` is this rank's ShardRange, in full's type, or null when it is
  // already in its place in `full`.
  Pending AllGather(device::Tensor shard, device::Tensor full, int64_t count, std::string unit,
                    std::shared_ptr<device::Event> after = nullptr);
  // As AllGather, for raw bytes: `shard_bytes` from every rank, in rank order.
  Pending AllGatherBytes(const void* shard, void* full, int64_t shard_bytes, std::string unit,
                         std::shared_ptr<device::Event> after = nullptr);
  // shard = this rank's ShardRange of the sum over ranks of `full`: fp32 accumulation in the order of topology.h, then
  // one rounding to shard's type. `shard` may point at this rank's place inside `full`. A group of one team may
  // continue an earlier sum (SumChain in sum.h): then `shard` is fp32, and may be `chain.initial` itself.
  Pending ReduceScatter(device::Tensor full, device::Tensor shard, int64_t count, std::string unit,
                        std::shared_ptr<device::Event> after = nullptr, const SumChain& chain = {});
  // As ReduceScatter followed by AllGather, in place.
  Pending AllReduce(device::Tensor data, int64_t count, std::string unit,
                    std::shared_ptr<device::Event> after = nullptr);

  // Makes the operation in progress and all later ones return `reason` at once. Any thread; idempotent.
  void Abort(absl::Status reason);

  CollectiveProgress progress() const;
  // The newest operations, at most kMostFlights, oldest first.
  static constexpr size_t kMostFlights = 32;
  std::vector<CollectiveFlight> flights() const;
  std::map<Operation, CollectiveTotals> totals() const;
  void SetObserver(Observer observer);  // before the first operation
  // While set, the functions that post an operation return when it is complete, and it is neither counted nor observed:
  // for a first pass, in which the device loads its code (ZeroEngine::WarmUp). The posting thread sets it between
  // operations.
  void SetWarmingUp(bool warming_up) { warming_up_.store(warming_up, std::memory_order_release); }

 protected:
  Communicator(std::string group, Topology topology);
  // Called by a backend's constructor when it is ready, and by its destructor before it tears down.
  void StartThread();
  void StopThread();
  // Makes every function that posts an operation return only once the operation has been issued, so that operations of
  // several groups reach the device in the order in which one thread posts them. Called before StartThread.
  void IssueInOrder() { issues_in_order_ = true; }

  // OK, or the reason given to Abort. A backend polls it in every wait, at least every 50 ms.
  absl::Status aborted() const;
  bool is_aborted() const { return is_aborted_.load(std::memory_order_acquire); }  // cheap enough to spin on

  // Called by Run* with the bytes this rank puts on the wire.
  void CountSent(const Traffic& traffic);
  void CountSent(int peer, int64_t bytes);

  // Called by Run* of a backend that works on the device, once the operation's work is enqueued between `start` and
  // `done`. The operation is complete when the device has reached the last `done` it issued; later operations may be
  // issued before that.
  void Issued(std::shared_ptr<device::Event> start, std::shared_ptr<device::Event> done);
  // Called at least every 50 ms while the device works on issued operations; an error fails all of them. `first` is the
  // oldest one.
  virtual absl::Status CheckIssued(Operation first);
  // Called when a failed operation touches its buffers, or may still do so: they go back to their owners when it
  // returns.
  virtual void Abandon() {}

  // Returns when `after` is reached, or when a wait for it is enqueued before what the next Run* enqueues. The default
  // polls.
  virtual absl::Status AwaitInputs(const device::Event& after);

  // Called on the communicator's thread while nothing is posted. Returns when something may have been posted, after 50
  // ms at the latest; meanwhile the backend may keep its transport moving. The default waits on a condition.
  virtual void Idle();
  // Called from any thread to end a wait of the communicator's thread early: something was posted or aborted.
  virtual void Wake() {}

  // An all-gather only moves bytes, so it has no type.
  virtual absl::Status RunAllGather(const void* shard, void* full, int64_t count, int64_t element_bytes) = 0;
  virtual absl::Status RunReduceScatter(device::Tensor full, device::Tensor shard, int64_t count,
                                        const SumChain& chain) = 0;
  // In place. The default runs RunReduceScatter and RunAllGather.
  virtual absl::Status RunAllReduce(device::Tensor data, int64_t count);

 private:
  struct Posted;
  // The most operations on the device at a time; more would only fill the driver's queue.
  static constexpr size_t kMostIssued = 32;
  Pending Post(Operation operation, int64_t gathered_bytes, std::string unit, std::shared_ptr<device::Event> after,
               std::function<absl::Status()> run);
  void Loop();
  void AwaitWork();
  void Run(std::unique_ptr<Posted> posted);
  void Retire();
  void NoteArrival(Posted& posted);
  void Complete(Posted& posted);
  void FailIssued(const absl::Status& status);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); }

  const std::string group_;
  const Topology topology_;
  bool issues_in_order_ = false;
  Observer observer_;
  // Used by the communicator's thread only.
  Traffic traffic_;  // the traffic of the operation in Run*
  Posted* running_ = nullptr;
  std::deque<std::unique_ptr<Posted>> issued_;
  std::atomic<bool> is_aborted_ = false, warming_up_ = false;
  mutable absl::Mutex mutex_;
  std::deque<std::unique_ptr<Posted>> queue_ ABSL_GUARDED_BY(mutex_);
  CollectiveProgress progress_ ABSL_GUARDED_BY(mutex_);
  std::deque<CollectiveFlight> flights_ ABSL_GUARDED_BY(mutex_);
  std::map<Operation, CollectiveTotals> totals_ ABSL_GUARDED_BY(mutex_);
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_COMMUNICATOR_H_
