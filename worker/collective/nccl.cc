// The NCCL backend: buffers in device memory, everything enqueued on the communicator's streams. NCCL's calls and the
// waiting are in nccl_transport.cc, the reduction in ordered_reduce.cc, its sums in worker/device/cuda/sum_in_order.cu.
#include "worker/collective/nccl.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/collective/address.h"
#include "worker/collective/exchange.h"
#include "worker/collective/nccl_transport.h"
#include "worker/collective/ordered_reduce.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/sum_in_order.h"

namespace zerofleet::collective {
namespace {

// How long failed operations wait for each stream to release their buffers.
constexpr double kDrainLimitSeconds = 10;

std::unique_ptr<device::cuda::CudaStream> AsCuda(std::unique_ptr<device::Stream> stream) {
  return std::unique_ptr<device::cuda::CudaStream>(static_cast<device::cuda::CudaStream*>(stream.release()));
}

struct Streams {
  std::unique_ptr<device::cuda::CudaStream> wire, sums;
};

// Chunks are as long as the scratch memory allows, since each costs several launches.
ReduceLimits Limits(int64_t scratch_bytes) { return {.scratch_bytes = scratch_bytes, .chunk_bytes = scratch_bytes}; }

class NcclCommunicator : public Communicator, private ExchangeTransport {
 public:
  NcclCommunicator(device::Device& device, Streams streams, std::unique_ptr<device::Reservation> scratch,
                   std::unique_ptr<NcclTransport> transport, const NcclOptions& options, bool one_of_several,
                   std::string group, const Topology& topology)
      : Communicator(std::move(group), topology),
        device_(device),
        clock_(*options.clock),
        finish_limit_seconds_(options.finish_limit_seconds),
        wire_(std::move(streams.wire)),
        sums_(std::move(streams.sums)),
        scratch_(std::move(scratch)),
        reduce_(topology, Limits(options.scratch_bytes), scratch_->data()),
        transport_(std::move(transport)) {
    if (size() > 1) LoadSums();
    if (one_of_several) IssueInOrder();
    StartThread();
  }

  ~NcclCommunicator() override {
    StopThread();
    if (transport_ == nullptr) return;
    wire_->MakeCurrent();
    if (is_aborted())
      transport_->Abort();
    else
      transport_->Finish(finish_limit_seconds_);
  }

  std::string backend() const override { return "nccl"; }

 protected:
  absl::Status AwaitInputs(const device::Event& after) override {
    wire_->Wait(after);
    return wire_->failure();
  }

  absl::Status CheckIssued(Operation first) override;
  void Abandon() override;

  absl::Status RunAllGather(const void* shard, void* full, int64_t count, int64_t element_bytes) override {
    return Enqueue([&] { return Gather(shard, static_cast<std::byte*>(full), count, element_bytes); });
  }

  absl::Status RunReduceScatter(device::Tensor full, device::Tensor shard, int64_t count,
                                const SumChain& chain) override {
    return Enqueue([&]() -> absl::Status {
      ZF_RETURN_IF_ERROR(reduce_.Run(*this, full, shard, count, chain));
      for (std::shared_ptr<device::Event>& last : summed_) {
        if (last != nullptr) wire_->Wait(*std::exchange(last, nullptr));
      }
      return absl::OkStatus();
    });
  }

 private:
  // Runs `enqueue`, which puts an operation on the streams, and reports it as issued.
  absl::Status Enqueue(absl::FunctionRef<absl::Status()> enqueue);

  void LoadSums();
  absl::Status Gather(const void* shard, std::byte* full, int64_t count, int64_t element_bytes);

  // The steps of a reduction: messages on wire_, sums on sums_, and events between the two streams.
  absl::Status Post(int64_t step, const Messages& messages) override;
  absl::Status Arrive(int64_t step) override {
    sums_->Wait(*arrived_[step % kExchangeDepth]);
    return absl::OkStatus();
  }
  void Sum(std::span<const void* const> contributions, device::DType dtype, device::Tensor to, int64_t count,
           const float* initial) override {
    device::cuda::EnqueueSumInOrder(*sums_, contributions, dtype, to, count, initial);
  }
  absl::Status Release(int64_t step) override {
    summed_[step % kExchangeDepth] = sums_->Record();
    return absl::OkStatus();
  }

  absl::Status Watch() const { return is_aborted() ? aborted() : absl::OkStatus(); }
  absl::Status Group(const char* op, absl::FunctionRef<absl::Status()> enqueue) {
    return transport_->Group(op, enqueue, [this] { return Watch(); });
  }

  void Copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0 && to != from) device_.Copy(*wire_, to, from, bytes);
  }

  device::Device& device_;
  const Clock& clock_;
  const double finish_limit_seconds_;
  const std::unique_ptr<device::cuda::CudaStream> wire_, sums_;
  const std::unique_ptr<device::Reservation> scratch_;
  OrderedReduce reduce_;
  std::array<std::shared_ptr<device::Event>, kExchangeDepth> arrived_,
      summed_;                                      // for the reduction in progress, by step
  const std::unique_ptr<NcclTransport> transport_;  // null in a group of one rank
};

// Runs each summation kernel once, before any collective: the driver loads a kernel at its first launch and may then
// wait for the device to be idle, which can deadlock while a collective waits for another rank. A failure sticks to the
// stream, and the first operation returns it.
void NcclCommunicator::LoadSums() {
  constexpr device::DType kTypes[] = {device::DType::kF32, device::DType::kBF16, device::DType::kF16};
  std::byte* const to = scratch_->data() + sizeof(float);
  // Kernels differ by the number of contributions: the ranks of a team, the ranks of the last team, the teams.
  for (const int count : {topology().team(), topology().SizeOf(topology().teams() - 1), topology().teams()}) {
    const std::vector<const void*> contributions(count, scratch_->data());
    for (const device::DType full : kTypes) {
      for (const device::DType shard : kTypes) {
        device::cuda::EnqueueSumInOrder(*sums_, contributions, full, {to, shard}, 1);
        // Narrowing in place uses a separate kernel.
        if (device::DTypeBytes(shard) < device::DTypeBytes(full)) {
          device::cuda::EnqueueSumInOrder(*sums_, contributions, full, {scratch_->data(), shard}, 1);
        }
      }
    }
  }
  sums_->RecordToWait()->Wait().IgnoreError();
}

absl::Status NcclCommunicator::Enqueue(absl::FunctionRef<absl::Status()> enqueue) {
  if (transport_ != nullptr) {
    wire_->MakeCurrent();
    ZF_RETURN_IF_ERROR(transport_->Connect(clock_, [this] { return Watch(); }));
  }
  std::shared_ptr<device::Event> start = wire_->RecordTime();
  ZF_RETURN_IF_ERROR(enqueue());
  Issued(std::move(start), wire_->RecordTime());
  ZF_RETURN_IF_ERROR(sums_->failure());
  return wire_->failure();
}

absl::Status NcclCommunicator::CheckIssued(Operation first) {
  ZF_RETURN_IF_ERROR(Watch());
  return transport_ == nullptr ? absl::OkStatus() : transport_->CheckAsync(OperationName(first));
}

// The abort ends NCCL's kernels, so that what is enqueued behind them finishes quickly.
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
  // NCCL chooses its own routes, which enter a node once as well; what is counted are the routes of routed_gather.h.
  CountSent(AllGatherTraffic(topology(), count, element_bytes));
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

absl::Status NcclCommunicator::Post(int64_t step, const Messages& messages) {
  const std::shared_ptr<device::Event>& summed = summed_[step % kExchangeDepth];
  if (summed != nullptr) wire_->Wait(*summed);
  if (!messages.incoming.empty() || !messages.outgoing.empty()) {
    ZF_RETURN_IF_ERROR(Group("reduce_scatter", [&]() -> absl::Status {
      for (const Incoming& message : messages.incoming) {
        ZF_RETURN_IF_ERROR(transport_->Receive(message.data, message.bytes, message.peer, wire_->handle()));
      }
      for (const Outgoing& message : messages.outgoing) {
        ZF_RETURN_IF_ERROR(transport_->Send(message.data, message.bytes, message.peer, wire_->handle()));
        CountSent(message.peer, message.bytes);
      }
      return absl::OkStatus();
    }));
  }
  arrived_[step % kExchangeDepth] = wire_->Record();
  return absl::OkStatus();
}

std::string NcclAddressOf(const device::Device& device, const std::map<std::string, std::string>& ids) {
  v1::CollectiveAddress address;
  address.set_device_id(device.unique_id());
  for (const auto& [group, id] : ids) (*address.mutable_groups())[group].set_nccl_id(id);
  return SealAddress(address);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclEndpoint>> NcclEndpoint::Create(device::Device& device, NcclOptions options,
                                                                   const std::vector<std::string>& groups) {
  Ids ids;
  for (const std::string& group : groups) {
    ZF_ASSIGN_OR_RETURN(ids[group], NcclTransport::CreateId());
  }
  return std::unique_ptr<NcclEndpoint>(new NcclEndpoint(device, options, std::move(ids)));
}

NcclEndpoint::NcclEndpoint(device::Device& device, NcclOptions options, Ids ids)
    : device_(device), options_(options), ids_(std::move(ids)), address_(NcclAddressOf(device, ids_)) {}

absl::StatusOr<std::unique_ptr<Communicator>> NcclEndpoint::Join(const CollectiveGroup& group) {
  ZF_RETURN_IF_ERROR(CheckGroup(group));
  const int rank = group.rank, size = group.size();
  if (size > device::cuda::kMostContributions) {
    return absl::InvalidArgumentError(absl::StrCat("collectives: group ", group.name, ": ", size,
                                                   " ranks; nccl sums at most ", device::cuda::kMostContributions));
  }
  ZF_ASSIGN_OR_RETURN(const GroupAddresses addresses, OpenGroupAddresses(group));
  const auto id = ids_.find(group.name);
  if (id == ids_.end()) return NotServed(group);
  if (id->second.empty()) return JoinedBefore(group);
  if (addresses.ranks[0].nccl_id().empty()) {
    return absl::FailedPreconditionError("collectives: rank 0 has no NCCL");
  }
  if (addresses.ranks[rank].nccl_id() != id->second) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, "'s collective address is not this worker's own"));
  }
  if (const std::optional<SharedDevice> shared = FindSharedDevice(addresses.device_ids)) {
    return absl::FailedPreconditionError(
        absl::StrCat("collectives: ranks ", shared->first, " and ", shared->second, " share GPU ", shared->device_id,
                     ", which nccl refuses; give each worker a GPU of its own, or set collectives to auto or ucx"));
  }
  Streams streams;
  for (std::unique_ptr<device::cuda::CudaStream>* stream : {&streams.wire, &streams.sums}) {
    // Other work waits for these kernels, and without priority a short one would wait behind whole waves of a matrix
    // product's blocks.
    ZF_ASSIGN_OR_RETURN(std::unique_ptr<device::Stream> created, device_.CreateUrgentStream());
    *stream = AsCuda(std::move(created));
  }
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<device::Reservation> scratch,
                      device_.Reserve(size == 1 ? 0 : options_.scratch_bytes));
  std::unique_ptr<NcclTransport> transport;
  if (size > 1 || options_.alone) {
    transport = std::make_unique<NcclTransport>(addresses.ranks[0].nccl_id(), rank, size,
                                                absl::StrCat("group ", group.name, ", rank ", rank, " of ", size),
                                                options_.abort_limit_seconds);
  }
  id->second.clear();
  return std::make_unique<NcclCommunicator>(device_, std::move(streams), std::move(scratch), std::move(transport),
                                            options_, /*one_of_several=*/ids_.size() > 1, group.name,
                                            TopologyOf(group));
}

}  // namespace zerofleet::collective
