// The algorithms of the UCX backend. Transport and waiting are in ucx_transport.cc, arithmetic in sum.cc.
#include "worker/collective/ucx.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/collective/sum.h"

namespace zerofleet {
namespace {

using Request = UcxTransport::Request;

// A reduce-scatter holds kDepth chunks of each peer: one being summed, the others arriving.
constexpr int kDepth = 2;
constexpr int64_t kScratchBytes = 4 << 20;
// Small enough for a chunk to stay in the second-level cache between its arrival and its sum.
constexpr int64_t kChunkLimitBytes = 256 << 10;
constexpr int kSizeLimit = 1 << 16;  // ranks are 16 bits of a tag
// How long a communicator that was not aborted waits for its last messages to leave.
constexpr absl::Duration kFlushLimit = absl::Seconds(2);

int64_t ChunkBytes(int size) {
  if (size == 1) return 0;
  return std::min(kChunkLimitBytes, kScratchBytes / (kDepth * (size - 1)) / 64 * 64);
}

class UcxCommunicator : public Communicator {
 public:
  UcxCommunicator(std::unique_ptr<UcxTransport> transport, std::string group, int rank, int size)
      : Communicator(std::move(group), rank, size),
        transport_(std::move(transport)),
        chunk_bytes_(ChunkBytes(size)),
        scratch_(kDepth * (size - 1) * chunk_bytes_),
        contributions_(size),
        receives_(kDepth),
        sends_(kDepth) {
    StartThread();
  }

  ~UcxCommunicator() override {
    StopThread();
    if (!is_aborted()) transport_->Flush(kFlushLimit);
  }

  std::string backend() const override { return "ucx"; }

 protected:
  absl::Status RunAllGather(const void* shard, void* full, int64_t count, int64_t element_bytes) override {
    return Operate([&] { return Gather(shard, static_cast<std::byte*>(full), count, element_bytes); });
  }

  absl::Status RunReduceScatter(const void* full, DType full_dtype, void* shard, DType shard_dtype,
                                int64_t count) override {
    return Operate([&] { return Reduce(static_cast<const std::byte*>(full), full_dtype, shard, shard_dtype, count); });
  }

  absl::Status RunAllReduce(void* data, int64_t count, DType dtype) override {
    std::byte* bytes = static_cast<std::byte*>(data);
    std::byte* mine = bytes + ShardRange(count, size(), rank()).begin * DTypeBytes(dtype);
    ZF_RETURN_IF_ERROR(Operate([&] { return Reduce(bytes, dtype, mine, dtype, count); }));
    return Operate([&] { return Gather(nullptr, bytes, count, DTypeBytes(dtype)); });
  }

  absl::Status RunBroadcast(void* data, int64_t bytes, int root) override {
    return Operate([&] { return Tree(static_cast<std::byte*>(data), bytes, root); });
  }

  void Idle() override {
    // Before the first operation there is nobody to hear; after an abort buffers have gone back to their owners.
    if (!transport_->is_connected() || is_aborted()) return Communicator::Idle();
    transport_->ProgressAndSleep(absl::Milliseconds(50));
  }

  void Wake() override { transport_->Signal(); }

 private:
  // The messages of one step under way.
  using Step = std::vector<Request>;

  absl::Status Send(Step& step, int peer, const void* data, int64_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    ZF_ASSIGN_OR_RETURN(Request request, transport_->Send(peer, data, bytes));
    step.push_back(request);
    CountSent(bytes);
    return absl::OkStatus();
  }

  absl::Status Receive(Step& step, int peer, void* data, int64_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    ZF_ASSIGN_OR_RETURN(Request request, transport_->Receive(peer, data, bytes));
    step.push_back(request);
    return absl::OkStatus();
  }

  absl::Status Wait(Step& step) {
    ZF_RETURN_IF_ERROR(transport_->Wait(step, interrupt_));
    step.clear();
    return absl::OkStatus();
  }

  // `post`, and the wait for all it has posted. The first operation connects the ranks, so that a rank that never runs
  // one waits for nobody. One that failed closes the transport: its buffers go back to their owner, untouched from then
  // on.
  absl::Status Operate(absl::FunctionRef<absl::Status()> post) {
    if (!transport_->is_connected()) ZF_RETURN_IF_ERROR(transport_->Connect(interrupt_));
    absl::Status status = post();
    for (Step& step : receives_) {
      if (status.ok()) status = Wait(step);
    }
    for (Step& step : sends_) {
      if (status.ok()) status = Wait(step);
    }
    if (!status.ok()) Close();
    return status;
  }

  void Close() {
    Step left;
    for (std::vector<Step>* steps : {&receives_, &sends_}) {
      for (Step& step : *steps) left.insert(left.end(), step.begin(), step.end());
    }
    transport_->Close(left);
  }

  // The `distance`-th peer after this rank, so that ranks do not all turn to the same one.
  int Peer(int distance) const { return (rank() + distance) % size(); }

  absl::Status Gather(const void* shard, std::byte* full, int64_t count, int64_t element_bytes);
  absl::Status Reduce(const std::byte* full, DType full_dtype, void* shard, DType shard_dtype, int64_t count);
  absl::Status Tree(std::byte* data, int64_t bytes, int root);
  absl::Status PostStep(const std::byte* full, int64_t element_bytes, int64_t count, int64_t step);
  void SumStep(const std::byte* full, DType full_dtype, void* shard, DType shard_dtype, int64_t count, int64_t step);

  // Where the chunk of `peer` arrives in `step`.
  std::byte* Slot(int64_t step, int peer) {
    const int64_t index = (step % kDepth) * (size() - 1) + (peer < rank() ? peer : peer - 1);
    return scratch_.data() + index * chunk_bytes_;
  }

  // Elements of `rank`'s part that move in `step`.
  Range Chunk(int64_t count, int rank, int64_t element_bytes, int64_t step) const {
    const Range part = ShardRange(count, size(), rank);
    const int64_t chunk = chunk_bytes_ / element_bytes;
    return {std::min(part.end, part.begin + step * chunk), std::min(part.end, part.begin + (step + 1) * chunk)};
  }

  const std::unique_ptr<UcxTransport> transport_;
  const UcxTransport::Interrupt interrupt_ = [this] { return is_aborted() ? aborted() : absl::OkStatus(); };
  const int64_t chunk_bytes_;
  std::vector<std::byte> scratch_;
  std::vector<const void*> contributions_;  // of one chunk, by rank
  std::vector<Step> receives_, sends_;      // of the operation in progress, by step modulo kDepth
};

absl::Status UcxCommunicator::Gather(const void* shard, std::byte* full, int64_t count, int64_t element_bytes) {
  const Range mine = ShardRange(count, size(), rank());
  std::byte* place = full + mine.begin * element_bytes;
  const int64_t bytes = mine.size() * element_bytes;
  if (shard == nullptr) shard = place;
  for (int distance = 1; distance < size(); distance++) {
    const int to = Peer(distance), from = Peer(size() - distance);
    const Range theirs = ShardRange(count, size(), from);
    ZF_RETURN_IF_ERROR(Receive(receives_[0], from, full + theirs.begin * element_bytes, theirs.size() * element_bytes));
    ZF_RETURN_IF_ERROR(Send(sends_[0], to, shard, bytes));
  }
  if (shard != place && bytes > 0) std::memcpy(place, shard, bytes);
  return absl::OkStatus();
}

absl::Status UcxCommunicator::Reduce(const std::byte* full, DType full_dtype, void* shard, DType shard_dtype,
                                     int64_t count) {
  const int64_t element_bytes = DTypeBytes(full_dtype);
  if (size() == 1) {
    const void* own = full;
    SumInOrder({&own, 1}, full_dtype, shard, shard_dtype, count);
    return absl::OkStatus();
  }
  // Part 0 is the longest, so every rank counts the same steps.
  const int64_t steps = CeilDivide(ShardRange(count, size(), 0).size(), chunk_bytes_ / element_bytes);
  for (int64_t step = 0; step < std::min<int64_t>(kDepth, steps); step++) {
    ZF_RETURN_IF_ERROR(PostStep(full, element_bytes, count, step));
  }
  for (int64_t step = 0; step < steps; step++) {
    ZF_RETURN_IF_ERROR(Wait(receives_[step % kDepth]));
    SumStep(full, full_dtype, shard, shard_dtype, count, step);
    ZF_RETURN_IF_ERROR(Wait(sends_[step % kDepth]));
    if (step + kDepth < steps) ZF_RETURN_IF_ERROR(PostStep(full, element_bytes, count, step + kDepth));
  }
  return absl::OkStatus();
}

absl::Status UcxCommunicator::PostStep(const std::byte* full, int64_t element_bytes, int64_t count, int64_t step) {
  const int64_t mine_bytes = Chunk(count, rank(), element_bytes, step).size() * element_bytes;
  for (int distance = 1; distance < size(); distance++) {
    const int to = Peer(distance), from = Peer(size() - distance);
    ZF_RETURN_IF_ERROR(Receive(receives_[step % kDepth], from, Slot(step, from), mine_bytes));
    const Range theirs = Chunk(count, to, element_bytes, step);
    ZF_RETURN_IF_ERROR(
        Send(sends_[step % kDepth], to, full + theirs.begin * element_bytes, theirs.size() * element_bytes));
  }
  return absl::OkStatus();
}

void UcxCommunicator::SumStep(const std::byte* full, DType full_dtype, void* shard, DType shard_dtype, int64_t count,
                              int64_t step) {
  const Range mine = Chunk(count, rank(), DTypeBytes(full_dtype), step);
  for (int peer = 0; peer < size(); peer++) {
    contributions_[peer] = peer == rank() ? full + mine.begin * DTypeBytes(full_dtype) : Slot(step, peer);
  }
  const int64_t done = mine.begin - ShardRange(count, size(), rank()).begin;
  std::byte* to = static_cast<std::byte*>(shard) + done * DTypeBytes(shard_dtype);
  SumInOrder(contributions_, full_dtype, to, shard_dtype, mine.size());
}

absl::Status UcxCommunicator::Tree(std::byte* data, int64_t bytes, int root) {
  // Ranks count from the root. One holds the data once it has received from the rank that differs in its lowest set
  // bit, and passes it on to those that differ in a lower one.
  const int place = (rank() - root + size()) % size();
  int bit = 1;
  while (bit < size() && (place & bit) == 0) bit <<= 1;
  if (place != 0) {
    ZF_RETURN_IF_ERROR(Receive(receives_[0], (place - bit + root) % size(), data, bytes));
    ZF_RETURN_IF_ERROR(Wait(receives_[0]));
  }
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (place + bit < size()) ZF_RETURN_IF_ERROR(Send(sends_[0], (place + bit + root) % size(), data, bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxEndpoint>> UcxEndpoint::Create() {
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<UcxTransport> transport, UcxTransport::Create());
  return std::unique_ptr<UcxEndpoint>(new UcxEndpoint(std::move(transport)));
}

UcxEndpoint::UcxEndpoint(std::unique_ptr<UcxTransport> transport)
    : transport_(std::move(transport)), address_(transport_->address()) {}

absl::StatusOr<std::unique_ptr<Communicator>> UcxEndpoint::Join(const CollectiveGroup& group) {
  ZF_RETURN_IF_ERROR(CheckGroup(group));
  if (group.size() > kSizeLimit) {
    return absl::InvalidArgumentError(absl::StrCat("collectives: group ", group.name, ": ", group.size(),
                                                   " ranks; ucx connects at most ", kSizeLimit));
  }
  if (transport_ == nullptr) return absl::FailedPreconditionError("this collective endpoint has joined a group before");
  std::unique_ptr<UcxTransport> transport = std::move(transport_);
  ZF_RETURN_IF_ERROR(transport->Join(group.addresses, group.rank, group.generation));
  return std::make_unique<UcxCommunicator>(std::move(transport), group.name, group.rank, group.size());
}

}  // namespace zerofleet
