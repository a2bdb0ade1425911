// The queue, the thread and the book-keeping that every backend shares; transports are elsewhere.
#include "worker/collective/communicator.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"

namespace zerofleet::collective {

const char* OperationName(Operation operation) {
  switch (operation) {
    case Operation::kAllGather: return "all_gather";
    case Operation::kReduceScatter: return "reduce_scatter";
    case Operation::kAllReduce: return "all_reduce";
  }
  return "unknown";
}

struct Communicator::Pending::State {
  void Complete(absl::Status result) {
    absl::MutexLock lock(&mutex);
    status = std::move(result);
    done = true;
  }

  void Issue(std::shared_ptr<device::Event> event) {
    absl::MutexLock lock(&mutex);
    issued = std::move(event);
  }

  bool Arranged() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return done || issued != nullptr; }

  absl::Mutex mutex;
  bool done ABSL_GUARDED_BY(mutex) = false;
  std::shared_ptr<device::Event> issued ABSL_GUARDED_BY(mutex);
  absl::Status status ABSL_GUARDED_BY(mutex);
};

absl::Status Communicator::Pending::Wait() const {
  if (state_ == nullptr) return absl::OkStatus();
  absl::MutexLock lock(&state_->mutex);
  state_->mutex.Await(absl::Condition(&state_->done));
  return state_->status;
}

void Communicator::Pending::AwaitIssue() const {
  absl::MutexLock lock(&state_->mutex);
  state_->mutex.Await(absl::Condition(state_.get(), &State::Arranged));
}

absl::Status Communicator::Pending::MakeStreamWait(device::Stream& stream) const {
  if (state_ == nullptr) return absl::OkStatus();
  std::shared_ptr<device::Event> issued;
  absl::Status status;
  {
    absl::MutexLock lock(&state_->mutex);
    state_->mutex.Await(absl::Condition(state_.get(), &State::Arranged));
    issued = state_->issued;
    status = state_->status;
  }
  if (issued != nullptr) stream.Wait(*issued);
  return status;
}

struct Communicator::Posted {
  Operation operation;
  int64_t gathered_bytes;
  std::string unit;
  std::shared_ptr<device::Event> after;
  std::function<absl::Status()> run;
  std::shared_ptr<Pending::State> state;

  // Used by the communicator's thread only.
  bool arrived = false;
  Traffic traffic = {};
  double host_start = 0;
  std::shared_ptr<device::Event> start = nullptr, done = nullptr;  // on the device, where it was issued there
};

Communicator::Communicator(std::string group, Topology topology)
    : group_(std::move(group)), topology_(std::move(topology)) {}

Communicator::~Communicator() { ZF_CHECK(!thread_.joinable()); }

void Communicator::StartThread() {
  thread_ = std::thread([this] { Loop(); });
}

void Communicator::StopThread() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

Communicator::Pending Communicator::AllGather(device::Tensor shard, device::Tensor full, int64_t count,
                                              std::string unit, std::shared_ptr<device::Event> after) {
  ZF_CHECK(!shard || shard.dtype == full.dtype);
  const int64_t element_bytes = device::DTypeBytes(full.dtype);
  return Post(Operation::kAllGather, count * element_bytes, std::move(unit), std::move(after),
              [=, this] { return RunAllGather(shard.data, full.data, count, element_bytes); });
}

Communicator::Pending Communicator::AllGatherBytes(const void* shard, void* full, int64_t shard_bytes, std::string unit,
                                                   std::shared_ptr<device::Event> after) {
  const int64_t count = shard_bytes * size();
  return Post(Operation::kAllGather, count, std::move(unit), std::move(after),
              [=, this] { return RunAllGather(shard, full, count, 1); });
}

Communicator::Pending Communicator::ReduceScatter(device::Tensor full, device::Tensor shard, int64_t count,
                                                  std::string unit, std::shared_ptr<device::Event> after,
                                                  const SumChain& chain) {
  ZF_CHECK(chain.contributors >= 0 && chain.contributors <= size());
  ZF_CHECK((chain.initial == nullptr && chain.contributors == 0) || topology_.teams() == 1);
  ZF_CHECK(chain.initial == nullptr || shard.dtype == device::DType::kF32);
  return Post(Operation::kReduceScatter, count * device::DTypeBytes(full.dtype), std::move(unit), std::move(after),
              [=, this] { return RunReduceScatter(full, shard, count, chain); });
}

Communicator::Pending Communicator::AllReduce(device::Tensor data, int64_t count, std::string unit,
                                              std::shared_ptr<device::Event> after) {
  return Post(Operation::kAllReduce, count * device::DTypeBytes(data.dtype), std::move(unit), std::move(after),
              [=, this] { return RunAllReduce(data, count); });
}

absl::Status Communicator::RunAllReduce(device::Tensor data, int64_t count) {
  const device::Tensor mine = data.Offset(ShardRange(count, size(), rank()).begin);
  ZF_RETURN_IF_ERROR(RunReduceScatter(data, mine, count, {}));
  return RunAllGather(nullptr, data.data, count, device::DTypeBytes(data.dtype));
}

void Communicator::Abort(absl::Status reason) {
  ZF_CHECK(!reason.ok());
  {
    absl::MutexLock lock(&mutex_);
    if (aborted_.ok()) aborted_ = std::move(reason);
    is_aborted_.store(true, std::memory_order_release);
  }
  Wake();
}

CollectiveProgress Communicator::progress() const {
  absl::MutexLock lock(&mutex_);
  CollectiveProgress progress = progress_;
  progress.group = group_;
  return progress;
}

std::vector<CollectiveFlight> Communicator::flights() const {
  absl::MutexLock lock(&mutex_);
  return {flights_.begin(), flights_.end()};
}

std::map<Operation, CollectiveTotals> Communicator::totals() const {
  absl::MutexLock lock(&mutex_);
  return totals_;
}

void Communicator::SetObserver(Observer observer) { observer_ = std::move(observer); }

absl::Status Communicator::aborted() const {
  absl::MutexLock lock(&mutex_);
  return aborted_;
}

void Communicator::CountSent(const Traffic& traffic) {
  traffic_.sent += traffic.sent;
  traffic_.to_other_nodes += traffic.to_other_nodes;
}

void Communicator::CountSent(int peer, int64_t bytes) {
  CountSent({.sent = bytes, .to_other_nodes = topology_.SameNode(rank(), peer) ? 0 : bytes});
}

void Communicator::Issued(std::shared_ptr<device::Event> start, std::shared_ptr<device::Event> done) {
  ZF_CHECK(running_ != nullptr);
  if (running_->start == nullptr) running_->start = std::move(start);
  running_->done = std::move(done);
}

absl::Status Communicator::CheckIssued(Operation) { return is_aborted() ? aborted() : absl::OkStatus(); }

absl::Status Communicator::AwaitInputs(const device::Event& after) {
  while (true) {
    ZF_ASSIGN_OR_RETURN(const bool reached, after.Reached());
    if (reached) return absl::OkStatus();
    if (is_aborted()) return aborted();
    absl::SleepFor(absl::Microseconds(20));
  }
}

void Communicator::Idle() {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &Communicator::HasWork), absl::Milliseconds(50));
}

Communicator::Pending Communicator::Post(Operation operation, int64_t gathered_bytes, std::string unit,
                                         std::shared_ptr<device::Event> after, std::function<absl::Status()> run) {
  ZF_CHECK(gathered_bytes >= 0);
  Pending pending;
  pending.state_ = std::make_shared<Pending::State>();
  {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::make_unique<Posted>(Posted{.operation = operation,
                                                     .gathered_bytes = gathered_bytes,
                                                     .unit = std::move(unit),
                                                     .after = std::move(after),
                                                     .run = std::move(run),
                                                     .state = pending.state_}));
  }
  Wake();
  // The caller gets a failure when it waits for the result.
  if (warming_up_.load(std::memory_order_acquire)) pending.Wait().IgnoreError();
  if (issues_in_order_) pending.AwaitIssue();
  return pending;
}

void Communicator::Loop() {
  while (true) {
    std::unique_ptr<Posted> next;
    std::deque<std::unique_ptr<Posted>> left;
    bool stopping = false;
    {
      absl::MutexLock lock(&mutex_);
      stopping = stopping_;
      if (stopping) {
        left.swap(queue_);
      } else if (!queue_.empty() && issued_.size() < kMostIssued) {
        next = std::move(queue_.front());
        queue_.pop_front();
      }
    }
    for (const auto& posted : left) {
      posted->state->Complete(absl::CancelledError("the communicator of group " + group_ + " was destroyed before " +
                                                   OperationName(posted->operation) + " of " + posted->unit));
    }
    if (next != nullptr)
      Run(std::move(next));
    else if (stopping && issued_.empty())
      return;
    else
      AwaitWork();
    Retire();
  }
}

// Waits until something is posted; while the device is at work, for a moment at most.
void Communicator::AwaitWork() {
  constexpr absl::Duration kMoment = absl::Microseconds(20);
  if (issued_.empty()) return Idle();
  {
    absl::MutexLock lock(&mutex_);
    if (!stopping_ && issued_.size() < kMostIssued) {
      mutex_.AwaitWithTimeout(absl::Condition(this, &Communicator::HasWork), kMoment);
      return;
    }
  }
  absl::SleepFor(kMoment);
}

void Communicator::Run(std::unique_ptr<Posted> posted) {
  absl::Status status = aborted();
  if (status.ok() && posted->after != nullptr) status = AwaitInputs(*posted->after);
  bool touched = !issued_.empty();
  if (status.ok()) {
    if (issued_.empty()) NoteArrival(*posted);
    touched = true;
    traffic_ = {};
    running_ = posted.get();
    posted->host_start = Clock::Real().MonotonicSeconds();
    status = posted->run();
    posted->traffic = traffic_;
    running_ = nullptr;
  }
  if (!status.ok()) {
    Abort(status);
    if (touched) Abandon();
    FailIssued(status);
    posted->state->Complete(std::move(status));
  } else if (posted->done != nullptr) {
    posted->state->Issue(posted->done);
    issued_.push_back(std::move(posted));
  } else {
    Complete(*posted);
  }
}

// Completes, in order, the operations that the device has finished.
void Communicator::Retire() {
  while (!issued_.empty()) {
    Posted& first = *issued_.front();
    // Reads whether the end is reached before it checks for errors: an operation may reach its end because it failed.
    const absl::StatusOr<bool> reached = first.done->Reached();
    absl::Status status = CheckIssued(first.operation);
    if (status.ok()) {
      if (reached.ok() && !*reached) return NoteArrival(first);
      status = reached.status();
    }
    if (!status.ok()) {
      Abort(status);
      Abandon();
      return FailIssued(status);
    }
    Complete(first);
    issued_.pop_front();
  }
}

void Communicator::FailIssued(const absl::Status& status) {
  for (const auto& posted : issued_) posted->state->Complete(status);
  issued_.clear();
}

// Counts this rank as arrived at the first incomplete operation once the operation's inputs are there: so a rank whose
// device hangs before then shows as the missing one.
void Communicator::NoteArrival(Posted& posted) {
  if (posted.arrived) return;
  if (posted.after != nullptr) {
    const absl::StatusOr<bool> reached = posted.after->Reached();
    if (!reached.ok() || !*reached) return;  // the operation itself will return a failure
  }
  posted.arrived = true;
  absl::MutexLock lock(&mutex_);
  progress_.sequence++;
  progress_.operation = posted.operation;
  progress_.unit = posted.unit;
  if (flights_.size() >= kMostFlights) flights_.pop_front();
  flights_.push_back(
      {progress_.sequence, posted.operation, posted.unit, posted.gathered_bytes, Clock::Real().MonotonicSeconds(), 0});
}

void Communicator::Complete(Posted& posted) {
  NoteArrival(posted);
  double seconds = posted.done == nullptr ? 0 : posted.done->SecondsSince(*posted.start);
  if (seconds <= 0) seconds = Clock::Real().MonotonicSeconds() - posted.host_start;
  const CollectiveRecord record{posted.operation, posted.unit, posted.traffic, posted.gathered_bytes, seconds};
  const bool counts = !warming_up_.load(std::memory_order_acquire);
  {
    absl::MutexLock lock(&mutex_);
    progress_.completed++;
    for (CollectiveFlight& flight : flights_) {
      if (flight.sequence == progress_.completed) flight.ended = Clock::Real().MonotonicSeconds();
    }
    if (counts) {
      CollectiveTotals& totals = totals_[posted.operation];
      totals.calls++;
      totals.bytes += record.traffic.sent;
      totals.to_other_nodes += record.traffic.to_other_nodes;
      totals.seconds += record.seconds;
      totals.gathered_bytes += record.gathered_bytes;
    }
  }
  if (counts && observer_) observer_(record);
  posted.state->Complete(absl::OkStatus());
}

}  // namespace zerofleet::collective
