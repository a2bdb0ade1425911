// The UCX backend: host memory, messages as requests that are waited for. Algorithms are in ordered_reduce.cc and
// routed_gather.cc, transport and waiting in ucx_transport.cc, arithmetic in sum.cc.
#include "worker/collective/ucx.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/collective/address.h"
#include "worker/collective/exchange.h"
#include "worker/collective/ordered_reduce.h"
#include "worker/collective/routed_gather.h"
#include "worker/collective/sum.h"

namespace zerofleet::collective {
namespace {

using Request = UcxTransport::Request;

// A chunk is small enough to stay in the second-level cache between its arrival and its sum.
constexpr ReduceLimits kLimits = {.scratch_bytes = 4 << 20, .chunk_bytes = 256 << 10};
constexpr int kSizeLimit = 1 << 16;  // ranks are 16 bits of a tag
// How long a communicator that was not aborted waits for its last messages to leave.
constexpr absl::Duration kFlushLimit = absl::Seconds(2);

class UcxCommunicator : public Communicator, private ExchangeTransport {
 public:
  UcxCommunicator(std::unique_ptr<UcxTransport> transport, std::string group, const Topology& topology)
      : Communicator(std::move(group), topology),
        transport_(std::move(transport)),
        scratch_(OrderedReduce::ScratchBytes(topology, kLimits)),
        reduce_(topology, kLimits, scratch_.data()),
        gather_(topology) {
    StartThread();
  }

  ~UcxCommunicator() override {
    StopThread();
    if (!is_aborted()) transport_->Flush(kFlushLimit);
  }

  std::string backend() const override { return "ucx"; }

 protected:
  absl::Status RunAllGather(const void* shard, void* full, int64_t count, int64_t element_bytes) override {
    const Range mine = ShardRange(count, size(), rank());
    std::byte* const place = static_cast<std::byte*>(full) + mine.begin * element_bytes;
    if (shard == nullptr) shard = place;
    return Operate([&]() -> absl::Status {
      ZF_RETURN_IF_ERROR(gather_.Run(*this, static_cast<const std::byte*>(shard), static_cast<std::byte*>(full), count,
                                     element_bytes));
      if (shard != place && mine.size() > 0) std::memcpy(place, shard, mine.size() * element_bytes);
      return absl::OkStatus();
    });
  }

  absl::Status RunReduceScatter(device::Tensor full, device::Tensor shard, int64_t count,
                                const SumChain& chain) override {
    return Operate([&] { return reduce_.Run(*this, full, shard, count, chain); });
  }

  void Idle() override {
    // Before the first operation there is nobody to hear; after an abort buffers have gone back to their owners.
    if (!transport_->is_connected() || is_aborted()) return Communicator::Idle();
    transport_->ProgressAndSleep(absl::Milliseconds(50));
  }

  void Wake() override { transport_->Signal(); }

 private:
  // The messages of one step under way.
  using Requests = std::vector<Request>;

  absl::Status Post(int64_t step, const Messages& messages) override {
    for (const Incoming& message : messages.incoming) {
      ZF_ASSIGN_OR_RETURN(Request request, transport_->Receive(message.peer, message.data, message.bytes));
      receives_[step % kExchangeDepth].push_back(request);
    }
    for (const Outgoing& message : messages.outgoing) {
      ZF_ASSIGN_OR_RETURN(Request request, transport_->Send(message.peer, message.data, message.bytes));
      sends_[step % kExchangeDepth].push_back(request);
      CountSent(message.peer, message.bytes);
    }
    return absl::OkStatus();
  }

  absl::Status Arrive(int64_t step) override { return Wait(receives_[step % kExchangeDepth]); }
  absl::Status Release(int64_t step) override { return Wait(sends_[step % kExchangeDepth]); }

  void Sum(std::span<const void* const> contributions, device::DType dtype, device::Tensor to, int64_t count,
           const float* initial) override {
    SumInOrder(contributions, dtype, to, count, initial);
  }

  absl::Status Wait(Requests& requests) {
    ZF_RETURN_IF_ERROR(transport_->Wait(requests, interrupt_));
    requests.clear();
    return absl::OkStatus();
  }

  // The first operation connects the ranks, so that a rank that never runs one waits for nobody. One that failed closes
  // the transport: its buffers go back to their owner, untouched from then on.
  absl::Status Operate(absl::FunctionRef<absl::Status()> run) {
    if (!transport_->is_connected()) ZF_RETURN_IF_ERROR(transport_->Connect(interrupt_));
    const absl::Status status = run();
    if (!status.ok()) Close();
    return status;
  }

  void Close() {
    Requests left;
    for (const auto* steps : {&receives_, &sends_}) {
      for (const Requests& step : *steps) left.insert(left.end(), step.begin(), step.end());
    }
    transport_->Close(left);
  }

  const std::unique_ptr<UcxTransport> transport_;
  const UcxTransport::Interrupt interrupt_ = [this] { return is_aborted() ? aborted() : absl::OkStatus(); };
  std::vector<std::byte> scratch_;
  OrderedReduce reduce_;
  const RoutedGather gather_;
  std::array<Requests, kExchangeDepth> receives_, sends_;  // of the operation in progress, by step
};

template <class Transports>
std::string UcxAddressOf(const Transports& transports) {
  v1::CollectiveAddress address;
  for (const auto& [name, transport] : transports) {
    (*address.mutable_groups())[name].set_ucx_worker(transport->address());
  }
  return SealAddress(address);
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxEndpoint>> UcxEndpoint::Create(const std::vector<std::string>& groups) {
  Transports transports;
  for (const std::string& group : groups) {
    ZF_ASSIGN_OR_RETURN(transports[group], UcxTransport::Create());
  }
  return std::unique_ptr<UcxEndpoint>(new UcxEndpoint(std::move(transports)));
}

UcxEndpoint::UcxEndpoint(Transports transports)
    : transports_(std::move(transports)), address_(UcxAddressOf(transports_)) {}

absl::StatusOr<std::unique_ptr<Communicator>> UcxEndpoint::Join(const CollectiveGroup& group) {
  ZF_RETURN_IF_ERROR(CheckGroup(group));
  if (group.size() > kSizeLimit) {
    return absl::InvalidArgumentError(absl::StrCat("collectives: group ", group.name, ": ", group.size(),
                                                   " ranks; ucx connects at most ", kSizeLimit));
  }
  ZF_ASSIGN_OR_RETURN(const GroupAddresses addresses, OpenGroupAddresses(group));
  const auto transport = transports_.find(group.name);
  if (transport == transports_.end()) return NotServed(group);
  if (transport->second == nullptr) return JoinedBefore(group);
  std::vector<std::string> workers;
  for (const v1::CollectiveAddress::Group& rank : addresses.ranks) {
    if (rank.ucx_worker().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("collectives: group ", group.name, ": rank ", workers.size(), " cannot be reached over ucx"));
    }
    workers.push_back(rank.ucx_worker());
  }
  ZF_RETURN_IF_ERROR(transport->second->Join(
      std::move(workers),
      {.group = group.name, .rank = group.rank, .generation = group.generation, .trust = group.trust}));
  return std::make_unique<UcxCommunicator>(std::move(transport->second), group.name, TopologyOf(group));
}

}  // namespace zerofleet::collective
