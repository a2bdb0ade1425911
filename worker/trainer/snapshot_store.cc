// Slots, and who may fill them with what; see snapshot_store.h.
#include "worker/trainer/snapshot_store.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace zerofleet::trainer {

using google::protobuf::util::MessageDifferencer;

v1::SnapshotShard ShardOf(const v1::ReplicaHeader& header) {
  v1::SnapshotShard shard;
  shard.mutable_snapshot()->set_generation(header.manifest().generation());
  shard.mutable_snapshot()->set_step(header.manifest().step());
  shard.set_rank(header.rank());
  shard.set_world_size(header.manifest().world_size());
  return shard;
}

namespace {

bool Is(const Snapshot& snapshot, const v1::SnapshotShard& shard) {
  return snapshot.held() != nullptr && MessageDifferencer::Equals(ShardOf(*snapshot.held()), shard);
}

bool Holds(const Snapshot& snapshot, const v1::SnapshotShard& shard) {
  return Is(snapshot, shard) && !snapshot.seal().empty();
}

absl::Status NotHere(const v1::SnapshotShard& shard) {
  return absl::NotFoundError(absl::StrCat("rank ", shard.rank(), "'s snapshot of step ", shard.snapshot().step(),
                                          " in generation ", shard.snapshot().generation(), " is not held here"));
}

}  // namespace

absl::Status SnapshotStore::EnterView(SnapshotPlace place, memory::Arena& arena) {
  absl::MutexLock lock(&mutex_);
  for (Slots* slots : {&own_, &replicas_}) {
    if (slots == &replicas_ && place.replica_owner < 0) continue;
    for (Slot& slot : *slots) {
      slot.snapshot.EnterView(place.most_bytes, arena);
      if (!slot.snapshot.reserved()) ZF_RETURN_IF_ERROR(slot.snapshot.Reserve(arena));
    }
  }
  place_ = std::move(place);
  return absl::OkStatus();
}

void SnapshotStore::LeaveView() {
  absl::MutexLock lock(&mutex_);
  place_.reset();
  for (Slot& slot : replicas_) slot.transfer = 0;
}

void SnapshotStore::Release() {
  LeaveView();
  absl::MutexLock lock(&mutex_);
  for (Slots* slots : {&own_, &replicas_}) {
    for (Slot& slot : *slots) slot.snapshot.Release();
  }
}

SnapshotStore::Slot& SnapshotStore::Oldest(Slots& slots) {
  const auto step_of = [](const Slot& slot) {
    return slot.snapshot.held() == nullptr ? -1 : slot.snapshot.held()->manifest().step();
  };
  return *std::min_element(slots.begin(), slots.end(),
                           [&](const Slot& a, const Slot& b) { return step_of(a) < step_of(b); });
}

absl::StatusOr<v1::SnapshotShard> SnapshotStore::Take(const v1::CheckpointManifest& manifest,
                                                      const zero::TrainingState& state, device::Device& device,
                                                      device::Stream& stream) {
  Snapshot* snapshot = nullptr;
  v1::ReplicaHeader header;
  {
    absl::MutexLock lock(&mutex_);
    ZF_CHECK(place_.has_value());
    Slot& slot = Oldest(own_);
    slot.snapshot.Clear();  // from here on nobody reads it
    snapshot = &slot.snapshot;
    header.set_rank(place_->rank);
  }
  *header.mutable_manifest() = manifest;
  ZF_ASSIGN_OR_RETURN(const int64_t filled, snapshot->FillFrom(state, device, stream));
  header.set_bytes(filled);
  absl::MutexLock lock(&mutex_);
  snapshot->Hold(header);
  return ShardOf(header);
}

void SnapshotStore::Seal(const v1::SnapshotShard& shard) {
  Snapshot* found = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    const auto slot =
        std::find_if(own_.begin(), own_.end(), [&](const Slot& each) { return Is(each.snapshot, shard); });
    ZF_CHECK(slot != own_.end());
    found = &slot->snapshot;
  }
  std::string digest = found->Digest();
  absl::MutexLock lock(&mutex_);
  found->Seal(std::move(digest));
}

absl::StatusOr<v1::ReplicaHeader> SnapshotStore::CopyTo(const v1::SnapshotId& snapshot, zero::TrainingState& state,
                                                        device::Device& device, device::Stream& stream) {
  Snapshot* found = nullptr;  // this rank's own part, which no other thread changes
  v1::ReplicaHeader header;
  {
    absl::MutexLock lock(&mutex_);
    v1::SnapshotShard mine;
    *mine.mutable_snapshot() = snapshot;
    mine.set_rank(place_->rank);
    mine.set_world_size(place_->world_size);
    const auto slot =
        std::find_if(own_.begin(), own_.end(), [&](const Slot& each) { return Holds(each.snapshot, mine); });
    if (slot == own_.end() || slot->snapshot.held()->bytes() != place_->bytes) return NotHere(mine);
    found = &slot->snapshot;
    header = *found->held();
  }
  const absl::Status copied = found->CopyTo(state, device, stream);
  if (absl::IsDataLoss(copied)) {
    absl::MutexLock lock(&mutex_);
    found->Clear();
  }
  ZF_RETURN_IF_ERROR(copied);
  return header;
}

void SnapshotStore::KeepOnly(const std::optional<v1::SnapshotId>& snapshot) {
  absl::MutexLock lock(&mutex_);
  for (Slots* slots : {&own_, &replicas_}) {
    for (Slot& slot : *slots) {
      const v1::ReplicaHeader* held = slot.snapshot.held();
      if (held == nullptr || (snapshot && MessageDifferencer::Equals(ShardOf(*held).snapshot(), *snapshot))) continue;
      slot.snapshot.Clear();
    }
  }
}

std::vector<v1::SnapshotShard> SnapshotStore::Held() const {
  absl::MutexLock lock(&mutex_);
  std::vector<v1::SnapshotShard> shards;
  for (const Slots* slots : {&own_, &replicas_}) {
    for (const Slot& slot : *slots) {
      if (!slot.snapshot.seal().empty()) shards.push_back(ShardOf(*slot.snapshot.held()));
    }
  }
  return shards;
}

const SnapshotStore::Slot* SnapshotStore::Find(const v1::SnapshotShard& shard) const {
  for (const Slots* slots : {&own_, &replicas_}) {
    for (const Slot& slot : *slots) {
      if (Holds(slot.snapshot, shard)) return &slot;
    }
  }
  return nullptr;
}

absl::StatusOr<SnapshotStore::Description> SnapshotStore::Describe(const v1::SnapshotShard& shard) const {
  absl::MutexLock lock(&mutex_);
  const Slot* slot = Find(shard);
  if (slot == nullptr) return NotHere(shard);
  return Description{*slot->snapshot.held(), slot->snapshot.seal()};
}

absl::Status SnapshotStore::Read(const v1::SnapshotShard& shard, int64_t offset, int64_t bytes,
                                 std::string& into) const {
  absl::MutexLock lock(&mutex_);
  const Slot* slot = Find(shard);
  if (slot == nullptr) return NotHere(shard);
  ZF_CHECK(offset >= 0);
  ZF_CHECK(offset + bytes <= slot->snapshot.held()->bytes());
  into.assign(reinterpret_cast<const char*>(slot->snapshot.memory().data() + offset), static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status SnapshotStore::CheckHeader(const v1::ReplicaHeader& header, int rank, int64_t bytes) const {
  const v1::CheckpointManifest& manifest = header.manifest();
  std::string wrong;
  if (header.rank() != rank) {
    wrong = absl::StrCat("is of rank ", header.rank(), ", expected ", rank);
  } else if (manifest.world_size() != place_->world_size) {
    wrong = absl::StrCat("has world size ", manifest.world_size(), ", expected ", place_->world_size);
  } else if (header.bytes() != bytes) {
    wrong = absl::StrCat("has ", header.bytes(), " bytes, expected ", bytes);
  } else if (manifest.step() < 0 || manifest.step() > place_->config.steps()) {
    wrong = absl::StrCat("is of step ", manifest.step(), ", beyond the run's ", place_->config.steps());
  } else if (!MessageDifferencer::Equals(manifest.config(), place_->config)) {
    wrong = "has another configuration";
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the snapshot ", wrong));
}

absl::StatusOr<uint64_t> SnapshotStore::BeginReplica(const v1::ReplicaHeader& header) {
  absl::MutexLock lock(&mutex_);
  if (!place_ || place_->replica_owner < 0) {
    return absl::FailedPreconditionError("this worker is in no view in which it keeps copies");
  }
  if (header.manifest().generation() != place_->generation) {
    return absl::FailedPreconditionError(absl::StrCat("the snapshot is of generation ", header.manifest().generation(),
                                                      ", this worker in ", place_->generation));
  }
  ZF_RETURN_IF_ERROR(CheckHeader(header, place_->replica_owner, place_->replica_bytes));
  for (const Slot& slot : replicas_) {
    const v1::ReplicaHeader* held = slot.snapshot.held();
    if (held == nullptr || held->manifest().step() < header.manifest().step()) continue;
    return absl::FailedPreconditionError(absl::StrCat("the snapshot is of step ", header.manifest().step(),
                                                      ", and that of step ", held->manifest().step(),
                                                      " is held already"));
  }
  Slot& slot = Oldest(replicas_);
  slot.snapshot.Clear();
  slot.transfer = ++last_transfer_;
  slot.arriving = header;
  slot.arrived = 0;
  return slot.transfer;
}

absl::Status SnapshotStore::CheckOwn(const v1::ReplicaHeader& header, const v1::SnapshotShard& wanted) const {
  absl::MutexLock lock(&mutex_);
  ZF_CHECK(place_.has_value());
  if (!MessageDifferencer::Equals(ShardOf(header), wanted)) {
    return absl::InvalidArgumentError("the snapshot is another than was asked for");
  }
  return CheckHeader(header, place_->rank, place_->bytes);
}

absl::StatusOr<SnapshotStore::Slot*> SnapshotStore::FindTransfer(uint64_t transfer) {
  for (Slot& slot : replicas_) {
    if (slot.transfer == transfer) return &slot;
  }
  return absl::AbortedError("the transfer is over: the view was left, or another transfer has begun");
}

absl::Status SnapshotStore::Append(uint64_t transfer, std::span<const std::byte> data) {
  absl::MutexLock lock(&mutex_);
  ZF_ASSIGN_OR_RETURN(Slot * slot, FindTransfer(transfer));
  if (static_cast<int64_t>(data.size()) > slot->arriving.bytes() - slot->arrived) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than the ", slot->arriving.bytes(), " bytes that were announced have arrived"));
  }
  std::memcpy(slot->snapshot.memory().subspan(static_cast<size_t>(slot->arrived)).data(), data.data(), data.size());
  slot->arrived += static_cast<int64_t>(data.size());
  return absl::OkStatus();
}

absl::Status SnapshotStore::End(uint64_t transfer, const std::string& digest) {
  absl::MutexLock lock(&mutex_);
  ZF_ASSIGN_OR_RETURN(Slot * slot, FindTransfer(transfer));
  slot->transfer = 0;
  if (slot->arrived != slot->arriving.bytes()) {
    return absl::DataLossError(
        absl::StrCat("only ", slot->arrived, " of ", slot->arriving.bytes(), " bytes have arrived"));
  }
  slot->snapshot.Hold(std::move(slot->arriving));
  slot->snapshot.Seal(digest);
  return absl::OkStatus();
}

}  // namespace zerofleet::trainer
