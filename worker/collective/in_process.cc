// The in-process backend. In an operation the ranks meet (publish their buffers), read their peers' buffers, and meet
// again.
//
// Only the first meeting waits for a rank that may never come, so only it can be aborted. After it every rank is inside
// the same operation and only copies or adds; later meetings are short, and keep buffers valid while peers read them.
#include "worker/collective/in_process.h"

#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/collective/sum.h"

namespace zerofleet::collective {
namespace {

// What a rank contributes to an operation. All but the buffers must be the same on every rank.
struct Call {
  Operation operation;
  int64_t count = 0;
  int64_t element_bytes = 0;
  const std::byte* shard = nullptr;
  const std::byte* full = nullptr;

  bool Matches(const Call& other) const {
    return operation == other.operation && count == other.count && element_bytes == other.element_bytes;
  }
};

class Meeting {
 public:
  explicit Meeting(int size) : size_(size), calls_(size) {}

  // Waits until every rank has called it for the same operation, and returns what all of them contributed.
  absl::StatusOr<std::vector<Call>> Begin(int rank, const Call& call, const std::function<absl::Status()>& aborted) {
    absl::MutexLock lock(&mutex_);
    calls_[rank] = call;
    const uint64_t phase = phase_;
    Arrive();
    while (phase_ == phase) {
      const absl::Status status = aborted();
      if (!status.ok()) {
        arrived_--;
        return status;
      }
      changed_.WaitWithTimeout(&mutex_, absl::Milliseconds(50));
    }
    for (int peer = 0; peer < size_; peer++) {
      if (!calls_[peer].Matches(calls_[0])) return Mismatch(peer);
    }
    return calls_;
  }

  // Waits until every rank has called it.
  void Synchronize() {
    absl::MutexLock lock(&mutex_);
    const uint64_t phase = phase_;
    Arrive();
    while (phase_ == phase) changed_.Wait(&mutex_);
  }

  void Wake() {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  }

 private:
  void Arrive() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (++arrived_ < size_) return;
    arrived_ = 0;
    phase_++;
    changed_.SignalAll();
  }

  absl::Status Mismatch(int peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Call &first = calls_[0], &other = calls_[peer];
    return absl::InternalError(absl::StrCat("ranks disagree on the schedule: rank 0 is in ",
                                            OperationName(first.operation), " of ", first.count, " elements, rank ",
                                            peer, " in ", OperationName(other.operation), " of ", other.count));
  }

  const int size_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t phase_ ABSL_GUARDED_BY(mutex_) = 0;
};

class InProcessCommunicator : public Communicator {
 public:
  InProcessCommunicator(std::string group, const Topology& topology, std::shared_ptr<Meeting> meeting)
      : Communicator(std::move(group), topology), meeting_(std::move(meeting)) {
    StartThread();
  }
  ~InProcessCommunicator() override { StopThread(); }

  std::string backend() const override { return "in_process"; }

 protected:
  absl::Status RunAllGather(const void* shard, void* full, int64_t count, int64_t element_bytes) override {
    std::byte* out = static_cast<std::byte*>(full);
    const Range mine = ShardRange(count, size(), rank());
    if (shard == nullptr) shard = out + mine.begin * element_bytes;
    const Call call{.operation = Operation::kAllGather,
                    .count = count,
                    .element_bytes = element_bytes,
                    .shard = static_cast<const std::byte*>(shard)};
    ZF_ASSIGN_OR_RETURN(const std::vector<Call> calls, Begin(call));
    for (int peer = 0; peer < size(); peer++) {
      const Range range = ShardRange(count, size(), peer);
      std::byte* to = out + range.begin * element_bytes;
      if (to != calls[peer].shard && range.size() > 0) {
        std::memcpy(to, calls[peer].shard, range.size() * element_bytes);
      }
    }
    meeting_->Synchronize();
    CountSent(AllGatherTraffic(topology(), count, element_bytes));
    return absl::OkStatus();
  }

  absl::Status RunReduceScatter(device::Tensor full, device::Tensor shard, int64_t count,
                                const SumChain& chain) override {
    const Call call{.operation = Operation::kReduceScatter,
                    .count = count,
                    .element_bytes = device::DTypeBytes(full.dtype),
                    .full = static_cast<const std::byte*>(full.data)};
    ZF_ASSIGN_OR_RETURN(const std::vector<Call> calls, Begin(call));
    SumPart(calls, full.dtype, shard, chain);
    meeting_->Synchronize();
    CountSent(ReduceScatterTraffic(topology(), count, device::DTypeBytes(full.dtype)));
    return absl::OkStatus();
  }

  void Wake() override {
    Communicator::Wake();
    meeting_->Wake();
  }

 private:
  absl::StatusOr<std::vector<Call>> Begin(const Call& call) {
    return meeting_->Begin(rank(), call, [this] { return aborted(); });
  }

  // Sums this rank's shard of every call's `full`.
  void SumPart(const std::vector<Call>& calls, device::DType dtype, device::Tensor to, const SumChain& chain) {
    const Range mine = ShardRange(calls[0].count, size(), rank());
    std::vector<const void*> contributions;
    for (const Call& call : calls) contributions.push_back(call.full + mine.begin * call.element_bytes);
    if (chain.contributors > 0) contributions.resize(chain.contributors);
    SumRanksInOrder(topology(), contributions, dtype, to, mine.size(), chain.initial);
  }

  const std::shared_ptr<Meeting> meeting_;
};

class InProcessEndpoint : public CollectiveEndpoint {
 public:
  std::string backend() const override { return "in_process"; }
  std::string address() const override { return "in_process"; }

  absl::StatusOr<std::unique_ptr<Communicator>> Join(const CollectiveGroup& group) override {
    ZF_RETURN_IF_ERROR(CheckGroup(group));
    if (group.size() != 1) {
      return absl::FailedPreconditionError(
          absl::StrCat("collectives: in_process serves one worker, not ", group.size(), "; use auto or ucx"));
    }
    return std::move(CreateInProcessGroup(group.name, 1)[0]);
  }
};

}  // namespace

std::unique_ptr<CollectiveEndpoint> CreateInProcessEndpoint() { return std::make_unique<InProcessEndpoint>(); }

std::vector<std::unique_ptr<Communicator>> CreateInProcessGroup(const std::string& group, int size, int team,
                                                                const std::vector<int>& nodes) {
  auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; rank++) {
    communicators.push_back(std::make_unique<InProcessCommunicator>(group, Topology(rank, size, team, nodes), meeting));
  }
  return communicators;
}

}  // namespace zerofleet::collective
