// The UCX backend: host memory; a message is a request that is waited for. Algorithms are in ordered_reduce.cc and
// routed_gather.cc, transport and waiting in ucx_transport.cc, arithmetic in sum.cc; operations without messages, for
// ranks that share a machine, are in node_group.cc.
#include "worker/collective/ucx.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/collective/address.h"
#include "worker/collective/exchange.h"
#include "worker/collective/node_group.h"
#include "worker/collective/ordered_reduce.h"
#include "worker/collective/routed_gather.h"
#include "worker/collective/sum.h"

namespace zerofleet::collective {
namespace {

using Request = UcxTransport::Request;

// Chunks are small enough to stay in the second-level cache between arrival and sum.
constexpr ReduceLimits kLimits = {.scratch_bytes = 4 << 20, .chunk_bytes = 256 << 10};
constexpr int kSizeLimit = 1 << 16;  // a rank has 16 bits in a tag
// How long a communicator that was not aborted waits for its last messages to be sent.
constexpr absl::Duration kFlushLimit = absl::Seconds(2);

// What this rank needs, besides UCX, to share memory with the other ranks of its group.
struct NodePlace {
  std::unique_ptr<NodeSegment> segment;
  std::vector<v1::NodeAddress> addresses;  // by rank; empty: memory is not shared
};

class UcxCommunicator : public Communicator, private ExchangeTransport {
 public:
  UcxCommunicator(std::unique_ptr<UcxTransport> transport, NodePlace node, const CollectiveGroup& group,
                  const Topology& topology)
      : Communicator(group.name, topology),
        transport_(std::move(transport)),
        node_place_(std::move(node)),
        notice_(group.trust.notice),
        shares_(!node_place_.addresses.empty()),
        scratch_(shares_ ? NodeGroup::kScratchBytes : OrderedReduce::ScratchBytes(topology, kLimits)),
        reduce_(topology, kLimits, scratch_.data()),
        gather_(topology) {
    static_assert(NodeGroup::kScratchBytes >= kLimits.scratch_bytes);
    StartThread();
  }

  ~UcxCommunicator() override {
    StopThread();
    if (node_ != nullptr) node_->Withdraw();
    if (!is_aborted()) transport_->Flush(kFlushLimit);
  }

  std::string backend() const override { return shares_.load(std::memory_order_relaxed) ? "shared_memory" : "ucx"; }

 protected:
  absl::Status RunAllGather(const void* shard, void* full, int64_t count, int64_t element_bytes) override {
    const Range mine = ShardRange(count, size(), rank());
    std::byte* const place = static_cast<std::byte*>(full) + mine.begin * element_bytes;
    if (shard == nullptr) shard = place;
    return Operate([&]() -> absl::Status {
      if (node_ != nullptr) {
        CountSent(AllGatherTraffic(topology(), count, element_bytes));
        return node_->AllGather(static_cast<const std::byte*>(shard), static_cast<std::byte*>(full), count,
                                element_bytes);
      }
      ZF_RETURN_IF_ERROR(gather_.Run(*this, static_cast<const std::byte*>(shard), static_cast<std::byte*>(full), count,
                                     element_bytes));
      if (shard != place && mine.size() > 0) std::memcpy(place, shard, mine.size() * element_bytes);
      return absl::OkStatus();
    });
  }

  absl::Status RunReduceScatter(device::Tensor full, device::Tensor shard, int64_t count,
                                const SumChain& chain) override {
    return Operate([&] {
      if (node_ == nullptr) return reduce_.Run(*this, full, shard, count, chain);
      CountSent(ReduceScatterTraffic(topology(), count, device::DTypeBytes(full.dtype)));
      return node_->ReduceScatter(full, shard, count, chain);
    });
  }

  absl::Status RunAllReduce(device::Tensor data, int64_t count) override {
    const int64_t element_bytes = device::DTypeBytes(data.dtype);
    ZF_RETURN_IF_ERROR(ConnectOnce());
    if (node_ == nullptr || !NodeGroup::AllReduces(count * element_bytes, size())) {
      return Communicator::RunAllReduce(data, count);
    }
    // Counted as a reduce-scatter and an all-gather, so that what is counted does not depend on the size.
    CountSent(ReduceScatterTraffic(topology(), count, element_bytes));
    CountSent(AllGatherTraffic(topology(), count, element_bytes));
    return Operate([&] { return node_->AllReduce(data, count); });
  }

  void Idle() override {
    // Before the first operation there is no connection, after an abort buffers have gone back to their owners, and
    // ranks that share memory send no messages.
    if (!transport_->is_connected() || is_aborted() || node_ != nullptr) return Communicator::Idle();
    transport_->ProgressAndSleep(absl::Milliseconds(50));
  }

  void Wake() override {
    if (needs_signals_) transport_->Signal();
  }

 private:
  // One step's messages in transit.
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

  // The first operation connects the ranks, so that a rank that never runs one waits for nobody. A failed operation
  // closes the transport: its buffers go back to their owner, and nothing touches them from then on.
  absl::Status Operate(absl::FunctionRef<absl::Status()> run) {
    ZF_RETURN_IF_ERROR(ConnectOnce());
    const absl::Status status = run();
    if (!status.ok()) Close();
    return status;
  }

  absl::Status ConnectOnce() {
    if (transport_->is_connected()) return absl::OkStatus();
    ZF_RETURN_IF_ERROR(transport_->Connect(interrupt_));
    if (node_place_.addresses.empty()) return absl::OkStatus();
    const absl::Status status = OpenNode();
    if (!status.ok()) Close();
    return status;
  }

  // Called when the peers have proved who they are. All ranks share memory or none does: every rank tells every other
  // whether it can read its peers' memory.
  absl::Status OpenNode() {
    absl::StatusOr<std::unique_ptr<NodeGroup>> node = NodeGroup::Open(
        group(), topology(), std::move(node_place_.segment), node_place_.addresses, scratch_.data(), interrupt_);
    verdicts_.assign(size(), node.ok() ? 1 : 0);
    Requests requests;
    for (int peer = 0; peer < size(); peer++) {
      if (peer == rank()) continue;
      ZF_ASSIGN_OR_RETURN(Request receive, transport_->Receive(peer, &verdicts_[peer], 1));
      requests.push_back(receive);
      ZF_ASSIGN_OR_RETURN(Request send, transport_->Send(peer, &verdicts_[rank()], 1));
      requests.push_back(send);
    }
    receives_[0] = std::move(requests);
    ZF_RETURN_IF_ERROR(Wait(receives_[0]));
    const auto unable = std::find(verdicts_.begin(), verdicts_.end(), 0);
    if (unable == verdicts_.end()) {
      node_ = *std::move(node);
      needs_signals_ = false;
      return absl::OkStatus();
    }
    shares_ = false;
    notice_(absl::StrCat("collectives of group ", group(), " go over ucx, not through shared memory: ",
                         node.ok() ? absl::StrCat("rank ", unable - verdicts_.begin(), " cannot read its peers' memory")
                                   : std::string(node.status().message())));
    return absl::OkStatus();
  }

  void Close() {
    if (node_ != nullptr) node_->Withdraw();
    Requests left;
    for (const auto* steps : {&receives_, &sends_}) {
      for (const Requests& step : *steps) left.insert(left.end(), step.begin(), step.end());
    }
    transport_->Close(left);
  }

  const std::unique_ptr<UcxTransport> transport_;
  NodePlace node_place_;
  const std::function<void(const std::string&)> notice_;
  std::atomic<bool> shares_;                // whether memory is shared, as far as is known
  std::atomic<bool> needs_signals_ = true;  // the communicator's thread may be sleeping in UCX
  const UcxTransport::Interrupt interrupt_ = [this] { return is_aborted() ? aborted() : absl::OkStatus(); };
  std::vector<std::byte> scratch_;
  OrderedReduce reduce_;
  const RoutedGather gather_;
  std::unique_ptr<NodeGroup> node_;                        // set once connected, where memory is shared
  std::vector<char> verdicts_;                             // by rank: whether it can read its peers' memory
  std::array<Requests, kExchangeDepth> receives_, sends_;  // for the operation in progress, by step
};

}  // namespace

absl::StatusOr<std::unique_ptr<UcxEndpoint>> UcxEndpoint::Create(const std::vector<std::string>& groups,
                                                                 WithinNode within_node) {
  Places places;
  std::string refusal;
  for (const std::string& group : groups) {
    Place& place = places[group];
    ZF_ASSIGN_OR_RETURN(place.transport, UcxTransport::Create());
    if (within_node == WithinNode::kUcx) continue;
    absl::StatusOr<std::unique_ptr<NodeSegment>> segment = NodeSegment::Create();
    if (segment.ok())
      place.segment = *std::move(segment);
    else
      refusal = std::string(segment.status().message());
  }
  return std::unique_ptr<UcxEndpoint>(new UcxEndpoint(std::move(places), std::move(refusal)));
}

UcxEndpoint::UcxEndpoint(Places places, std::string refusal)
    : places_(std::move(places)), address_(AddressOf(places_)), refusal_(std::move(refusal)) {}

std::string UcxEndpoint::AddressOf(const Places& places) {
  v1::CollectiveAddress address;
  for (const auto& [name, place] : places) {
    v1::CollectiveAddress::Group& group = (*address.mutable_groups())[name];
    group.set_ucx_worker(place.transport->address());
    if (place.segment != nullptr) *group.mutable_node() = place.segment->address();
  }
  return SealAddress(address);
}

std::vector<v1::NodeAddress> UcxEndpoint::SharedBy(const CollectiveGroup& group,
                                                   const std::vector<v1::CollectiveAddress::Group>& ranks) {
  fallback_reason_.clear();
  std::vector<v1::NodeAddress> addresses;
  for (const v1::CollectiveAddress::Group& rank : ranks) addresses.push_back(rank.node());
  const bool asked_for = places_.at(group.name).segment != nullptr || !refusal_.empty();
  if (!asked_for || group.size() == 1 || TopologyOf(group).nodes() > 1) return {};
  fallback_reason_ = refusal_.empty() ? NodeGroup::Obstacle(addresses) : refusal_;
  if (!fallback_reason_.empty()) addresses.clear();
  return addresses;
}

absl::StatusOr<std::unique_ptr<Communicator>> UcxEndpoint::Join(const CollectiveGroup& group) {
  ZF_RETURN_IF_ERROR(CheckGroup(group));
  if (group.size() > kSizeLimit) {
    return absl::InvalidArgumentError(absl::StrCat("collectives: group ", group.name, ": ", group.size(),
                                                   " ranks; ucx connects at most ", kSizeLimit));
  }
  ZF_ASSIGN_OR_RETURN(const GroupAddresses addresses, OpenGroupAddresses(group));
  const auto found = places_.find(group.name);
  if (found == places_.end()) return NotServed(group);
  Place& place = found->second;
  if (place.transport == nullptr) return JoinedBefore(group);
  std::vector<std::string> workers;
  for (const v1::CollectiveAddress::Group& rank : addresses.ranks) {
    if (rank.ucx_worker().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("collectives: group ", group.name, ": rank ", workers.size(), " cannot be reached over ucx"));
    }
    workers.push_back(rank.ucx_worker());
  }
  ZF_RETURN_IF_ERROR(place.transport->Join(
      std::move(workers),
      {.group = group.name, .rank = group.rank, .generation = group.generation, .trust = group.trust}));
  NodePlace node{.segment = nullptr, .addresses = SharedBy(group, addresses.ranks)};
  node.segment = std::move(place.segment);
  return std::make_unique<UcxCommunicator>(std::move(place.transport), std::move(node), group, TopologyOf(group));
}

}  // namespace zerofleet::collective
