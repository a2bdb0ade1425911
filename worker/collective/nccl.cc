// The algorithms of the NCCL backend, on its streams. NCCL's calls and the waiting are in nccl_transport.cc.
#include "worker/collective/nccl.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/collective/nccl_address.h"
#include "worker/collective/nccl_transport.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/sum_in_order.h"

namespace zerofleet {
namespace {

// Chunks of a reduction in flight: one being summed, the next arriving.
constexpr int kHalves = 2;
// The alignment for a kernel's widest loads; whole elements of every type.
constexpr int64_t kAlignment = 64;
// How long a communicator that was not aborted waits for the other ranks of its host to leave too.
constexpr double kFinishLimitSeconds = 5;
// How long failed operations wait for each stream to release their buffers.
constexpr double kDrainLimitSeconds = 10;

std::unique_ptr<cuda::CudaStream> AsCuda(std::unique_ptr<Stream> stream) {
  return std::unique_ptr<cuda::CudaStream>(static_cast<cuda::CudaStream*>(stream.release()));
}

struct Streams {
  std::unique_ptr<cuda::CudaStream> wire, sums;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(Device& device, Streams streams, std::unique_ptr<Reservation> scratch,
                   std::unique_ptr<NcclTransport> transport, const Clock& clock, std::string group, int rank, int size)
      : Communicator(std::move(group), rank, size),
        device_(device),
        clock_(clock),
        wire_(std::move(streams.wire)),
        sums_(std::move(streams.sums)),
        scratch_(std::move(scratch)),
        chunk_bytes_(size == 1 ? 0 : scratch_->bytes() / kHalves / (size - 1) / kAlignment * kAlignment),
        contributions_(size),
        transport_(std::move(transport)) {
    ZF_CHECK(size == 1 || chunk_bytes_ > 0);
    if (size > 1) LoadSums();
    StartThread();
  }

  ~NcclCommunicator() override {
    StopThread();
    if (transport_ == nullptr) return;
    wire_->MakeCurrent();
    if (is_aborted())
      transport_->Abort();
    else
      transport_->Finish(clock_, kFinishLimitSeconds);
  }

  std::string backend() const override { return "nccl"; }

 protected:
  absl::Status AwaitInputs(const Event& after) override {
    wire_->Wait(after);
    return wire_->failure();
  }

  absl::Status CheckIssued(Operation first) override;
  void Abandon() override;

  absl::Status RunAllGather(const void* shard, void* full, int64_t count, int64_t element_bytes) override {
    return Enqueue([&] { return Gather(shard, static_cast<std::byte*>(full), count, element_bytes); });
  }

  absl::Status RunReduceScatter(const void* full, DType full_dtype, void* shard, DType shard_dtype,
                                int64_t count) override {
    return Enqueue([&] {
      return Reduce(static_cast<const std::byte*>(full), full_dtype, static_cast<std::byte*>(shard), shard_dtype,
                    count);
    });
  }

  absl::Status RunAllReduce(void* data, int64_t count, DType dtype) override {
    std::byte* bytes = static_cast<std::byte*>(data);
    std::byte* mine = bytes + ShardRange(count, size(), rank()).begin * DTypeBytes(dtype);
    return Enqueue([&]() -> absl::Status {
      ZF_RETURN_IF_ERROR(Reduce(bytes, dtype, mine, dtype, count));
      return Gather(nullptr, bytes, count, DTypeBytes(dtype));
    });
  }

  absl::Status RunBroadcast(void* data, int64_t bytes, int root) override {
    return Enqueue([&]() -> absl::Status {
      if (transport_ == nullptr || bytes == 0) return absl::OkStatus();
      // NCCL passes it on from rank to rank, and the last rank does not forward it.
      if ((rank() + 1) % size() != root) CountSent(bytes);
      return Group("broadcast", [&] { return transport_->Broadcast(data, data, bytes, root, wire_->handle()); });
    });
  }

 private:
  // Runs `enqueue`, which puts an operation on the streams, and reports it as issued.
  absl::Status Enqueue(absl::FunctionRef<absl::Status()> enqueue);

  void LoadSums();
  absl::Status Gather(const void* shard, std::byte* full, int64_t count, int64_t element_bytes);
  absl::Status Reduce(const std::byte* full, DType full_dtype, std::byte* shard, DType shard_dtype, int64_t count);
  absl::Status Exchange(const std::byte* full, int64_t element_bytes, int64_t count, int64_t step);
  void SumStep(const std::byte* full, DType full_dtype, std::byte* shard, DType shard_dtype, int64_t count,
               int64_t step);

  absl::Status Watch() const { return is_aborted() ? aborted() : absl::OkStatus(); }
  absl::Status Group(const char* op, absl::FunctionRef<absl::Status()> enqueue) {
    return transport_->Group(op, enqueue, [this] { return Watch(); });
  }

  void Copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0 && to != from) device_.Copy(*wire_, to, from, bytes);
  }

  // Where `peer`'s chunk arrives in `step`.
  std::byte* Slot(int64_t step, int peer) const {
    const int64_t index = step % kHalves * (size() - 1) + (peer < rank() ? peer : peer - 1);
    return scratch_->data() + index * chunk_bytes_;
  }

  // Elements of `rank`'s part that move in `step`.
  Range Chunk(int64_t count, int rank, int64_t element_bytes, int64_t step) const {
    const Range part = ShardRange(count, size(), rank);
    const int64_t chunk = chunk_bytes_ / element_bytes;
    return {std::min(part.end, part.begin + step * chunk), std::min(part.end, part.begin + (step + 1) * chunk)};
  }

  Device& device_;
  const Clock& clock_;
  const std::unique_ptr<cuda::CudaStream> wire_, sums_;
  const std::unique_ptr<Reservation> scratch_;
  const int64_t chunk_bytes_;
  std::vector<const void*> contributions_;          // of one chunk, by rank
  const std::unique_ptr<NcclTransport> transport_;  // null in a group of one rank
};

// Runs each summation kernel once, before there is any collective: the driver loads a kernel at its first launch and
// may wait for the device to be idle then, which can deadlock while a collective waits for another rank. A failure
// sticks to the stream, and the first operation finds it.
void NcclCommunicator::LoadSums() {
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};
  std::byte* const to = scratch_->data() + kAlignment;
  std::fill(contributions_.begin(), contributions_.end(), scratch_->data());
  for (const DType full : kTypes) {
    for (const DType shard : kTypes) {
      cuda::EnqueueSumInOrder(*sums_, contributions_, full, to, shard, 1);
      // Narrowing in place uses a separate kernel.
      if (DTypeBytes(shard) < DTypeBytes(full)) {
        cuda::EnqueueSumInOrder(*sums_, contributions_, full, scratch_->data(), shard, 1);
      }
    }
  }
  sums_->Record()->Wait().IgnoreError();
}

absl::Status NcclCommunicator::Enqueue(absl::FunctionRef<absl::Status()> enqueue) {
  if (transport_ != nullptr) {
    wire_->MakeCurrent();
    ZF_RETURN_IF_ERROR(transport_->Connect(clock_, [this] { return Watch(); }));
  }
  std::shared_ptr<Event> start = wire_->Record();
  ZF_RETURN_IF_ERROR(enqueue());
  Issued(std::move(start), wire_->Record());
  ZF_RETURN_IF_ERROR(sums_->failure());
  return wire_->failure();
}

absl::Status NcclCommunicator::CheckIssued(Operation first) {
  ZF_RETURN_IF_ERROR(Watch());
  return transport_ == nullptr ? absl::OkStatus() : transport_->CheckAsync(OperationName(first));
}

// The abort ends NCCL's kernels, and what is enqueued behind them finishes quickly.
void NcclCommunicator::Abandon() {
  if (transport_ != nullptr) transport_->Abort();
  wire_->Record()->SettledWithin(kDrainLimitSeconds);
  sums_->Record()->SettledWithin(kDrainLimitSeconds);
}

absl::Status NcclCommunicator::Gather(const void* shard, std::byte* full, int64_t count, int64_t element_bytes) {
  const Range mine = ShardRange(count, size(), rank());
  std::byte* place = full + mine.begin * element_bytes;
  if (shard == nullptr) shard = place;
  if (transport_ == nullptr) {
    Copy(place, shard, mine.size() * element_bytes);
    return absl::OkStatus();
  }
  if (count == 0) return absl::OkStatus();
  CountSent(mine.size() * element_bytes * (size() - 1));
  return Group("all_gather", [&]() -> absl::Status {
    if (count % size() == 0) {
      return transport_->AllGather(shard, full, mine.size() * element_bytes, wire_->handle());
    }
    for (int root = 0; root < size(); root++) {
      const Range part = ShardRange(count, size(), root);
      if (part.size() == 0) break;
      std::byte* to = full + part.begin * element_bytes;
      ZF_RETURN_IF_ERROR(
          transport_->Broadcast(root == rank() ? shard : to, to, part.size() * element_bytes, root, wire_->handle()));
    }
    return absl::OkStatus();
  });
}

absl::Status NcclCommunicator::Reduce(const std::byte* full, DType full_dtype, std::byte* shard, DType shard_dtype,
                                      int64_t count) {
  const int64_t element_bytes = DTypeBytes(full_dtype);
  if (size() == 1) {
    const void* own = full;
    if (full_dtype == shard_dtype)
      Copy(shard, full, count * element_bytes);
    else if (count > 0)
      cuda::EnqueueSumInOrder(*wire_, {&own, 1}, full_dtype, shard, shard_dtype, count);
    return absl::OkStatus();
  }
  CountSent((count - ShardRange(count, size(), rank()).size()) * element_bytes);
  // Part 0 is the longest, so every rank counts the same number of steps.
  const int64_t steps = CeilDivide(ShardRange(count, size(), 0).size(), chunk_bytes_ / element_bytes);
  std::array<std::shared_ptr<Event>, kHalves> summed;
  for (int64_t step = 0; step < steps; step++) {
    std::shared_ptr<Event>& half_summed = summed[step % kHalves];
    if (half_summed != nullptr) wire_->Wait(*half_summed);
    ZF_RETURN_IF_ERROR(Exchange(full, element_bytes, count, step));
    sums_->Wait(*wire_->Record());
    SumStep(full, full_dtype, shard, shard_dtype, count, step);
    half_summed = sums_->Record();
  }
  for (const std::shared_ptr<Event>& last : summed) {
    if (last != nullptr) wire_->Wait(*last);
  }
  return absl::OkStatus();
}

absl::Status NcclCommunicator::Exchange(const std::byte* full, int64_t element_bytes, int64_t count, int64_t step) {
  const int64_t mine_bytes = Chunk(count, rank(), element_bytes, step).size() * element_bytes;
  return Group("reduce_scatter", [&]() -> absl::Status {
    for (int distance = 1; distance < size(); distance++) {
      const int to = (rank() + distance) % size(), from = (rank() + size() - distance) % size();
      const Range theirs = Chunk(count, to, element_bytes, step);
      if (mine_bytes > 0) ZF_RETURN_IF_ERROR(transport_->Receive(Slot(step, from), mine_bytes, from, wire_->handle()));
      if (theirs.size() > 0) {
        ZF_RETURN_IF_ERROR(
            transport_->Send(full + theirs.begin * element_bytes, theirs.size() * element_bytes, to, wire_->handle()));
      }
    }
    return absl::OkStatus();
  });
}

void NcclCommunicator::SumStep(const std::byte* full, DType full_dtype, std::byte* shard, DType shard_dtype,
                               int64_t count, int64_t step) {
  const Range mine = Chunk(count, rank(), DTypeBytes(full_dtype), step);
  if (mine.size() == 0) return;
  for (int peer = 0; peer < size(); peer++) {
    contributions_[peer] = peer == rank() ? full + mine.begin * DTypeBytes(full_dtype) : Slot(step, peer);
  }
  // A narrower sum over this rank's place inside `full` ends before the chunks that are still to be read.
  const int64_t done = mine.begin - ShardRange(count, size(), rank()).begin;
  std::byte* to = shard + done * DTypeBytes(shard_dtype);
  cuda::EnqueueSumInOrder(*sums_, contributions_, full_dtype, to, shard_dtype, mine.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclEndpoint>> NcclEndpoint::Create(Device& device, NcclOptions options) {
  ZF_ASSIGN_OR_RETURN(std::string id, NcclTransport::CreateId());
  return std::unique_ptr<NcclEndpoint>(new NcclEndpoint(device, options, std::move(id)));
}

NcclEndpoint::NcclEndpoint(Device& device, NcclOptions options, std::string id)
    : device_(device),
      options_(options),
      id_(std::move(id)),
      address_(WrapNcclAddress({.nccl_id = id_, .device_id = device.unique_id(), .host_address = ""})) {}

absl::StatusOr<std::unique_ptr<Communicator>> NcclEndpoint::Join(const CollectiveGroup& group) {
  ZF_RETURN_IF_ERROR(CheckGroup(group));
  const int rank = group.rank, size = group.size();
  if (size > cuda::kMostContributions) {
    return absl::InvalidArgumentError(absl::StrCat("collectives: group ", group.name, ": ", size,
                                                   " ranks; nccl sums at most ", cuda::kMostContributions));
  }
  if (joined_) return absl::FailedPreconditionError("this collective endpoint has joined a group before");
  ZF_ASSIGN_OR_RETURN(const std::vector<NcclAddress> ranks, UnwrapNcclAddresses(group.addresses));
  if (ranks[0].nccl_id.empty()) return absl::FailedPreconditionError("collectives: rank 0 has no NCCL");
  if (ranks[rank].nccl_id != id_) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, "'s collective address is not this worker's own"));
  }
  if (const std::optional<SharedDevice> shared = FindSharedDevice(ranks)) {
    return absl::FailedPreconditionError(
        absl::StrCat("collectives: ranks ", shared->first, " and ", shared->second, " share GPU ", shared->device_id,
                     ", which nccl refuses; give each worker a GPU of its own, or set collectives to auto or ucx"));
  }
  Streams streams;
  for (std::unique_ptr<cuda::CudaStream>* stream : {&streams.wire, &streams.sums}) {
    // Other work waits for this: behind a matrix product's blocks a short kernel would wait for whole waves of them.
    ZF_ASSIGN_OR_RETURN(std::unique_ptr<Stream> created, device_.CreateUrgentStream());
    *stream = AsCuda(std::move(created));
  }
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<Reservation> scratch, device_.Reserve(size == 1 ? 0 : options_.scratch_bytes));
  std::unique_ptr<NcclTransport> transport;
  if (size > 1 || options_.alone) {
    transport = std::make_unique<NcclTransport>(ranks[0].nccl_id, rank, size,
                                                absl::StrCat("group ", group.name, ", rank ", rank, " of ", size));
  }
  joined_ = true;
  return std::make_unique<NcclCommunicator>(device_, std::move(streams), std::move(scratch), std::move(transport),
                                            *options_.clock, group.name, rank, size);
}

}  // namespace zerofleet
