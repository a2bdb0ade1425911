// The queue, the thread and the book-keeping every backend shares; no transport here.
#include "worker/collective/communicator.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"

namespace zerofleet {

Range ShardRange(int64_t count, int size, int rank) {
  const int64_t part = (count + size - 1) / size;
  const int64_t begin = std::min<int64_t>(count, part * rank);
  return {begin, std::min<int64_t>(count, begin + part)};
}

const char* OperationName(Operation operation) {
  switch (operation) {
    case Operation::kAllGather: return "all_gather";
    case Operation::kReduceScatter: return "reduce_scatter";
    case Operation::kAllReduce: return "all_reduce";
    case Operation::kBroadcast: return "broadcast";
  }
  return "unknown";
}

struct Communicator::Pending::State {
  void Complete(absl::Status result) {
    absl::MutexLock lock(&mutex);
    status = std::move(result);
    done = true;
  }

  bool Arranged() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return done || issued != nullptr; }

  absl::Mutex mutex;
  bool done ABSL_GUARDED_BY(mutex) = false;
  std::shared_ptr<Event> issued ABSL_GUARDED_BY(mutex);
  absl::Status status ABSL_GUARDED_BY(mutex);
};

absl::Status Communicator::Pending::Wait() const {
  if (state_ == nullptr) return absl::OkStatus();
  absl::MutexLock lock(&state_->mutex);
  state_->mutex.Await(absl::Condition(&state_->done));
  return state_->status;
}

absl::Status Communicator::Pending::Order(Stream& stream) const {
  if (state_ == nullptr) return absl::OkStatus();
  std::shared_ptr<Event> issued;
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
  std::shared_ptr<Event> after;
  std::function<absl::Status()> run;
  std::shared_ptr<Pending::State> state;
};

Communicator::Communicator(std::string group, int rank, int size) : group_(std::move(group)), rank_(rank), size_(size) {
  ZF_CHECK(size >= 1);
  ZF_CHECK(rank >= 0 && rank < size);
}

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

Communicator::Pending Communicator::AllGather(const void* shard, void* full, int64_t count, DType dtype,
                                              std::string unit, std::shared_ptr<Event> after) {
  const int64_t element_bytes = DTypeBytes(dtype);
  return Post(Operation::kAllGather, count * element_bytes, std::move(unit), std::move(after),
              [=, this] { return RunAllGather(shard, full, count, element_bytes); });
}

Communicator::Pending Communicator::AllGatherBytes(const void* shard, void* full, int64_t shard_bytes,
                                                   std::string unit, std::shared_ptr<Event> after) {
  const int64_t count = shard_bytes * size_;
  return Post(Operation::kAllGather, count, std::move(unit), std::move(after),
              [=, this] { return RunAllGather(shard, full, count, 1); });
}

Communicator::Pending Communicator::ReduceScatter(const void* full, DType full_dtype, void* shard, DType shard_dtype,
                                                  int64_t count, std::string unit, std::shared_ptr<Event> after) {
  return Post(Operation::kReduceScatter, count * DTypeBytes(full_dtype), std::move(unit), std::move(after),
              [=, this] { return RunReduceScatter(full, full_dtype, shard, shard_dtype, count); });
}

Communicator::Pending Communicator::AllReduce(void* data, int64_t count, DType dtype, std::string unit,
                                              std::shared_ptr<Event> after) {
  return Post(Operation::kAllReduce, count * DTypeBytes(dtype), std::move(unit), std::move(after),
              [=, this] { return RunAllReduce(data, count, dtype); });
}

Communicator::Pending Communicator::Broadcast(void* data, int64_t bytes, int root, std::string unit,
                                              std::shared_ptr<Event> after) {
  ZF_CHECK(root >= 0 && root < size_);
  return Post(Operation::kBroadcast, bytes, std::move(unit), std::move(after),
              [=, this] { return RunBroadcast(data, bytes, root); });
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

std::map<Operation, CollectiveTotals> Communicator::totals() const {
  absl::MutexLock lock(&mutex_);
  return totals_;
}

void Communicator::SetObserver(Observer observer) { observer_ = std::move(observer); }

absl::Status Communicator::aborted() const {
  absl::MutexLock lock(&mutex_);
  return aborted_;
}

void Communicator::Issued(std::shared_ptr<Event> done) {
  ZF_CHECK(running_ != nullptr);
  absl::MutexLock lock(&running_->state->mutex);
  running_->state->issued = std::move(done);
}

absl::Status Communicator::AwaitInputs(const Event& after) {
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
                                         std::shared_ptr<Event> after, std::function<absl::Status()> run) {
  ZF_CHECK(gathered_bytes >= 0);
  Pending pending;
  pending.state_ = std::make_shared<Pending::State>();
  {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::make_unique<Posted>(
        Posted{operation, gathered_bytes, std::move(unit), std::move(after), std::move(run), pending.state_}));
  }
  Wake();
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
      } else if (!queue_.empty()) {
        next = std::move(queue_.front());
        queue_.pop_front();
        progress_.sequence++;
        progress_.operation = next->operation;
        progress_.unit = next->unit;
      }
    }
    for (const auto& posted : left) {
      posted->state->Complete(absl::CancelledError("the communicator of group " + group_ + " was destroyed before " +
                                                   OperationName(posted->operation) + " of " + posted->unit));
    }
    if (stopping) return;
    if (next != nullptr) Run(*next);
    else Idle();
  }
}

void Communicator::Run(Posted& posted) {
  sent_bytes_ = 0;
  seconds_ = 0;
  running_ = &posted;
  absl::Status status = aborted();
  if (status.ok() && posted.after != nullptr) status = AwaitInputs(*posted.after);
  const double start = Clock::Real().MonotonicSeconds();
  if (status.ok()) status = posted.run();
  running_ = nullptr;
  if (!status.ok()) {
    Abort(status);
    posted.state->Complete(std::move(status));
    return;
  }
  const CollectiveRecord record{posted.operation, sent_bytes_, posted.gathered_bytes,
                                seconds_ > 0 ? seconds_ : Clock::Real().MonotonicSeconds() - start};
  {
    absl::MutexLock lock(&mutex_);
    progress_.completed++;
    CollectiveTotals& totals = totals_[posted.operation];
    totals.calls++;
    totals.bytes += record.sent_bytes;
    totals.seconds += record.seconds;
    totals.gathered_bytes += record.gathered_bytes;
  }
  if (observer_) observer_(record);
  posted.state->Complete(absl::OkStatus());
}

}  // namespace zerofleet
