// See node_group.h.
#include "worker/collective/node_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"

namespace zerofleet::collective {
namespace {

// How long to poll before sleeping, as in ucx_transport.cc.
constexpr double kNodeSpinSeconds = 20e-6;
constexpr int kLooksPerReading = 64;
// The longest sleep, after which an abort or the end of a peer's process is noticed.
constexpr absl::Duration kNodeSleepLimit = absl::Milliseconds(10);
// How much is read from a peer at a time: little enough to stay in a core's second-level cache until it is summed.
constexpr int64_t kReadChunkBytes = 512 << 10;
constexpr int64_t kReadChunkAlignment = 64;

// In a polling loop: leaves more of the core to its hardware sibling, and sees a change sooner.
void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

std::string NodeGroup::Obstacle(const std::vector<v1::NodeAddress>& addresses) {
  for (size_t rank = 0; rank < addresses.size(); rank++) {
    const std::string& node = addresses[rank].node();
    if (node.empty()) return absl::StrCat("rank ", rank, " shares no memory");
    if (node != addresses[0].node()) {
      return absl::StrCat("ranks 0 and ", rank, " are not on one machine, in one PID namespace and of one user");
    }
  }
  return "";
}

absl::StatusOr<std::unique_ptr<NodeGroup>> NodeGroup::Open(const std::string& name, const Topology& topology,
                                                           std::unique_ptr<NodeSegment> own,
                                                           const std::vector<v1::NodeAddress>& addresses,
                                                           std::byte* scratch, Interrupt interrupt) {
  std::unique_ptr<NodeGroup> group(new NodeGroup(name, topology, std::move(own), scratch, std::move(interrupt)));
  for (int peer = 0; peer < topology.size(); peer++) {
    if (peer == topology.rank()) continue;
    absl::StatusOr<std::unique_ptr<PeerSegment>> segment = PeerSegment::Open(addresses[peer]);
    if (!segment.ok()) return group->AtPeer(peer, segment.status());
    group->peers_[peer] = *std::move(segment);
  }
  return group;
}

NodeGroup::NodeGroup(std::string name, const Topology& topology, std::unique_ptr<NodeSegment> own, std::byte* scratch,
                     Interrupt interrupt)
    : name_(std::move(name)),
      topology_(topology),
      own_(std::move(own)),
      peers_(topology.size()),
      scratch_(scratch),
      interrupt_(std::move(interrupt)) {}

absl::Status NodeGroup::AllGather(const std::byte* shard, std::byte* full, int64_t count, int64_t element_bytes) {
  const int rank = topology_.rank(), size = topology_.size();
  const auto place = [&](int owner) { return full + ShardRange(count, size, owner).begin * element_bytes; };
  const auto bytes = [&](int owner) { return ShardRange(count, size, owner).size() * element_bytes; };
  ZF_RETURN_IF_ERROR(Begin(Operation::kAllGather, count, element_bytes, shard, bytes(rank)));
  if (shard != place(rank) && bytes(rank) > 0) std::memcpy(place(rank), shard, bytes(rank));
  // Each rank begins with a different peer.
  for (int distance = 1; distance < size; distance++) {
    const int peer = (rank + distance) % size;
    ZF_RETURN_IF_ERROR(AwaitBegun(peer));
    const NodeCall& call = CallOf(peer);
    for (int64_t begin = 0; begin < bytes(peer);) {
      ZF_RETURN_IF_ERROR(interrupt_());
      if (call.address == 0) {
        std::memcpy(place(peer), peers_[peer]->board().copies[operation_ % 2].data(), bytes(peer));
        break;
      }
      const int64_t part = std::min(bytes(peer) - begin, kScratchBytes);
      const absl::Status read = peers_[peer]->Read(place(peer) + begin, call.address + begin, part);
      if (!read.ok()) return AtPeer(peer, read);
      begin += part;
    }
  }
  return Finish();
}

absl::Status NodeGroup::ReduceScatter(device::Tensor full, device::Tensor shard, int64_t count, const SumChain& chain) {
  const int rank = topology_.rank(), size = topology_.size();
  const int64_t element_bytes = device::DTypeBytes(full.dtype);
  const auto* const own = static_cast<const std::byte*>(full.data);
  const int contributors = chain.contributors > 0 ? chain.contributors : size;
  ZF_RETURN_IF_ERROR(Begin(Operation::kReduceScatter, count, element_bytes, own, count * element_bytes));
  for (int distance = 1; distance < size; distance++) ZF_RETURN_IF_ERROR(AwaitBegun((rank + distance) % size));
  const Range mine = ShardRange(count, size, rank);
  const int64_t chunk_bytes =
      std::min(kReadChunkBytes, kScratchBytes / std::max(size - 1, 1) / kReadChunkAlignment * kReadChunkAlignment);
  const int64_t chunk_elements = chunk_bytes / element_bytes;
  const Stores stores = StoresFor(mine.size() * device::DTypeBytes(shard.dtype));
  for (int64_t begin = 0; begin < mine.size(); begin += chunk_elements) {
    ZF_RETURN_IF_ERROR(interrupt_());
    const Range chunk = Within(mine, begin, chunk_elements);
    contributions_.clear();
    for (int each = 0; each < contributors; each++) {
      std::byte* const scratch = scratch_ + (each < rank ? each : each - 1) * chunk_bytes;
      ZF_ASSIGN_OR_RETURN(const void* contribution, Contribution(each, own, chunk.begin, chunk.size(), scratch));
      contributions_.push_back(contribution);
    }
    SumRanksInOrder(topology_, contributions_, full.dtype, shard.Offset(begin), chunk.size(),
                    chain.initial == nullptr ? nullptr : chain.initial + begin, stores);
  }
  return Finish();
}

absl::Status NodeGroup::AllReduce(device::Tensor data, int64_t count) {
  const int rank = topology_.rank(), size = topology_.size();
  const int64_t element_bytes = device::DTypeBytes(data.dtype);
  auto* const own = static_cast<std::byte*>(data.data);
  ZF_CHECK(AllReduces(count * element_bytes, size));
  ZF_RETURN_IF_ERROR(Begin(Operation::kAllReduce, count, element_bytes, own, count * element_bytes));
  for (int distance = 1; distance < size; distance++) ZF_RETURN_IF_ERROR(AwaitBegun((rank + distance) % size));
  contributions_.clear();
  for (int each = 0; each < size; each++) {
    ZF_ASSIGN_OR_RETURN(const void* contribution, Contribution(each, own, 0, count, nullptr));
    contributions_.push_back(contribution);
  }
  SumRanksInOrder(topology_, contributions_, data.dtype, data, count);
  return Finish();
}

void NodeGroup::Withdraw() {
  own_->board().withdrawn.store(1, std::memory_order_seq_cst);
  Ring();
}

absl::Status NodeGroup::Begin(Operation operation, int64_t count, int64_t element_bytes, const std::byte* data,
                              int64_t bytes) {
  ZF_CHECK(bytes >= 0);
  operation_++;
  // Peers may still be reading the call of two operations ago, whose place this one takes.
  for (int peer = 0; peer < topology_.size() && operation_ > 2; peer++) {
    if (peers_[peer] != nullptr) ZF_RETURN_IF_ERROR(AwaitDone(peer, operation_ - 2));
  }
  call_ = {.operation = static_cast<uint64_t>(operation), .count = count, .element_bytes = element_bytes};
  NodeBoard& board = own_->board();
  if (bytes > kNodeCopyBytes)
    call_.address = reinterpret_cast<uint64_t>(data);
  else if (bytes > 0)
    std::memcpy(board.copies[operation_ % 2].data(), data, bytes);
  board.calls[operation_ % 2] = call_;
  board.begun.store(operation_, std::memory_order_release);
  Ring();
  return absl::OkStatus();
}

absl::Status NodeGroup::AwaitBegun(int peer) {
  ZF_RETURN_IF_ERROR(Await(
      peer, [this](const NodeBoard& board) { return board.begun.load(std::memory_order_acquire) >= operation_; }));
  const NodeCall& call = CallOf(peer);
  if (call.Matches(call_)) return absl::OkStatus();
  const auto name = [](const NodeCall& of) { return OperationName(static_cast<Operation>(of.operation)); };
  return absl::InternalError(absl::StrCat("ranks disagree on the schedule: rank ", topology_.rank(), " is in ",
                                          name(call_), " of ", call_.count, " elements of ", call_.element_bytes,
                                          " bytes, rank ", peer, " in ", name(call), " of ", call.count, " of ",
                                          call.element_bytes));
}

absl::Status NodeGroup::Finish() {
  own_->board().done.store(operation_, std::memory_order_release);
  Ring();
  if (call_.address == 0) return absl::OkStatus();
  for (int distance = 1; distance < topology_.size(); distance++) {
    ZF_RETURN_IF_ERROR(AwaitDone((topology_.rank() + distance) % topology_.size(), operation_));
  }
  return absl::OkStatus();
}

absl::Status NodeGroup::AwaitDone(int peer, uint64_t operation) {
  return Await(peer,
               [operation](const NodeBoard& board) { return board.done.load(std::memory_order_acquire) >= operation; });
}

absl::Status NodeGroup::Await(int peer, absl::FunctionRef<bool(const NodeBoard& board)> reached) {
  const PeerSegment& segment = *peers_[peer];
  const NodeBoard& board = segment.board();
  std::atomic<uint32_t>& sleeping = own_->board().sleeping;
  double spin_until = 0;
  while (true) {
    for (int look = 0; look < kLooksPerReading; look++) {
      if (reached(board)) return absl::OkStatus();
      Relax();
    }
    ZF_RETURN_IF_ERROR(interrupt_());
    const double now = Clock::Real().MonotonicSeconds();
    if (spin_until == 0) spin_until = now + kNodeSpinSeconds;
    if (now < spin_until) continue;
    // Either the peer sees that this rank sleeps, or this rank sees the peer's new counters.
    sleeping.store(1, std::memory_order_seq_cst);
    const uint32_t seen = board.bell.load(std::memory_order_seq_cst);
    const bool is_there = reached(board);
    const bool has_left = board.withdrawn.load(std::memory_order_seq_cst) != 0;
    if (!is_there && !has_left) segment.SleepWhile(seen, kNodeSleepLimit);
    sleeping.store(0, std::memory_order_relaxed);
    if (reached(board)) return absl::OkStatus();
    if (has_left) return AtPeer(peer, absl::UnavailableError("it has left"));
    if (segment.HasEnded()) return AtPeer(peer, absl::UnavailableError("its process has ended"));
  }
}

void NodeGroup::Ring() {
  own_->board().bell.fetch_add(1, std::memory_order_seq_cst);
  for (const std::unique_ptr<PeerSegment>& peer : peers_) {
    if (peer != nullptr && peer->board().sleeping.load(std::memory_order_seq_cst) != 0) return own_->Wake();
  }
}

absl::StatusOr<const void*> NodeGroup::Contribution(int rank, const std::byte* own, int64_t begin, int64_t count,
                                                    std::byte* scratch) const {
  const int64_t offset = begin * call_.element_bytes;
  if (rank == topology_.rank()) return own + offset;
  const NodeCall& call = CallOf(rank);
  if (call.address == 0) return peers_[rank]->board().copies[operation_ % 2].data() + offset;
  const absl::Status read =
      peers_[rank]->Read(scratch, call.address + static_cast<uint64_t>(offset), count * call_.element_bytes);
  if (!read.ok()) return AtPeer(rank, read);
  return scratch;
}

absl::Status NodeGroup::AtPeer(int peer, const absl::Status& status) const {
  return Annotate(status, absl::StrCat("collectives: group ", name_, ": rank ", peer));
}

}  // namespace zerofleet::collective
