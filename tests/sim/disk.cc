// Shards, manifests and damage; see disk.h.
#include "tests/sim/disk.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/divergence.h"

namespace zerofleet::sim {

int64_t Disk::StepOf(const std::string& path) {
  int64_t step = -1;
  const size_t digits = path.rfind('-');
  return digits != std::string::npos && absl::SimpleAtoi(path.substr(digits + 1), &step) ? step : -1;
}

services::DirectoryHolder Disk::TakeOver() {
  holder_ = {.epoch = holder_.epoch + 1, .host = "simulated", .incarnation = absl::StrCat("coordinator ", ++epoch_)};
  taken_at_ = world_.now();
  newest_state_ = state_;
  newest_has_written_ = false;
  generation_taken_ = state_.generation;
  for (auto& [step, checkpoint] : checkpoints_) checkpoint.name_is_durable = checkpoint.is_known = true;
  return holder_;
}

void Disk::WriteState(const coordinator::CoordinatorState& state, bool older) {
  if (older && newest_has_written_) world_.Violate("I12: the older coordinator writes over the state of the newer");
  state_ = state;
  if (older) return;
  newest_state_ = state;
  newest_has_written_ = true;
}

void Disk::LosePower() {
  std::erase_if(shards_, [](const auto& entry) { return entry.second.written != Written::kDurable; });
  std::erase_if(checkpoints_, [](const auto& entry) { return !entry.second.name_is_durable; });
}

std::string Disk::WhatIsWrong(const v1::CheckpointManifest& manifest) const {
  if (manifest.data_cursor().samples_consumed() != curriculum_.SamplesAfter(manifest.step())) {
    return absl::StrCat("its data cursor is at sample ", manifest.data_cursor().samples_consumed());
  }
  if (manifest.files_size() != manifest.world_size()) {
    return absl::StrCat(manifest.files_size(), " shards of ", manifest.world_size());
  }
  for (int rank = 0; rank < manifest.files_size(); ++rank) {
    if (manifest.files(rank).rank() != rank) return absl::StrCat("no shard of rank ", rank);
    const auto found = shards_.find({manifest.step(), manifest.generation(), rank});
    if (found == shards_.end() || found->second.written != Written::kDurable) {
      return absl::StrCat("the shard of rank ", rank, " is not durable");
    }
    if (found->second.hash != curriculum_.StateAfter(manifest.step())) {
      return absl::StrCat("the shard of rank ", rank, " holds another state");
    }
  }
  return "";
}

absl::StatusOr<coordinator::CommittedStep> Disk::Commit(const v1::CheckpointManifest& manifest, int keep) {
  if (IsCommitted(manifest.step())) {
    if (!IsLate(manifest.step())) world_.Violate(absl::StrCat("step ", manifest.step(), " is committed twice"));
    Checkpoint& there = checkpoints_[manifest.step()];
    const bool same = there.state.hash == curriculum_.StateAfter(manifest.step()) &&
                      there.state.samples_consumed == manifest.data_cursor().samples_consumed() && !there.damaged;
    if (!same || keep == kAll)
      return absl::FailedPreconditionError("holds a committed checkpoint, which is never overwritten");
    there.is_known = there.name_is_durable = true;
    Prune(keep);
    return coordinator::CommittedStep{PathOf(manifest.step()), {}};
  }
  for (const v1::ShardFile& file : manifest.files()) {  // a commit checks each
    if (shards_.contains({manifest.step(), manifest.generation(), file.rank()})) continue;
    return absl::DataLossError(absl::StrCat("the shard of rank ", file.rank(), " was removed"));
  }
  if (const std::string wrong = WhatIsWrong(manifest); !wrong.empty()) {
    world_.Violate(absl::StrCat("I1: step ", manifest.step(), " is committed, and ", wrong));
  }
  Checkpoint& checkpoint = checkpoints_[manifest.step()];
  checkpoint = {manifest.generation(),
                manifest.team(),
                {shards_[{manifest.step(), manifest.generation(), 0}].hash, manifest.data_cursor().samples_consumed()},
                false,
                true,
                keep != kAll};
  Prune(keep);
  return coordinator::CommittedStep{PathOf(manifest.step()), {}};
}

std::vector<int64_t> Disk::Surplus(int keep) const {
  int known = 0;
  for (const auto& [step, checkpoint] : checkpoints_) known += checkpoint.is_known;
  std::vector<int64_t> surplus;
  for (const auto& [step, checkpoint] : checkpoints_) {
    if (checkpoint.is_known && known-- > keep) surplus.push_back(step);
  }
  return surplus;
}

void Disk::Prune(int keep) {
  for (const int64_t step : Surplus(keep)) checkpoints_.erase(step);
}

void Disk::RemoveSteps(const std::vector<int64_t>& steps, int keep, bool older) {
  for (const int64_t step : steps) {
    const auto found = checkpoints_.find(step);
    if (found == checkpoints_.end()) continue;
    const auto newer = std::distance(found, checkpoints_.end()) - 1;
    world_.Trace("step ", step, " is removed late, and ", newer, " newer ones are left");
    if (older && newer < keep) world_.Violate(absl::StrCat("I12: the older coordinator removes step ", step));
    checkpoints_.erase(found);
  }
}

void Disk::Advance(const ShardKey& key, Written written) {
  if (const auto found = shards_.find(key); found != shards_.end()) found->second.written = written;
}

void Disk::Discard(const coordinator::DiscardSave& discard) {
  std::erase_if(shards_, [&](const auto& entry) {
    const bool failed = entry.first.step == discard.step && entry.first.generation == discard.generation;
    if (failed && entry.second.written != Written::kDurable) {
      world_.Violate(absl::StrCat("I2: a failed save of step ", discard.step, " is removed while rank ",
                                  entry.first.rank, " writes into it"));
    }
    return failed || entry.first.generation < discard.generation;
  });
}

bool Disk::HasShards(int64_t step, uint64_t generation) const {
  return std::any_of(shards_.begin(), shards_.end(), [&](const auto& entry) {
    return entry.first.step == step && entry.first.generation == generation;
  });
}

absl::Status Disk::SetAside(const std::string& path) {
  const auto found = checkpoints_.find(StepOf(path));
  if (found == checkpoints_.end()) return absl::OkStatus();  // it was removed after a newer one was committed
  if (!found->second.damaged && !IsPast(found->second))
    world_.Violate(absl::StrCat("I1: ", path, " is whole and was set aside"));
  checkpoints_.erase(found);
  return absl::OkStatus();
}

void Disk::DamageNewest() {
  if (checkpoints_.size() < 2) return;
  const Checkpoint &newest = checkpoints_.rbegin()->second, &older = std::next(checkpoints_.rbegin())->second;
  if (older.damaged || !older.is_known || !newest.is_known) return;
  checkpoints_.rbegin()->second.damaged = true;
}

absl::StatusOr<TrainingState> Disk::Load(const std::string& path) const {
  if (path.empty()) return TrainingState{kInitialState, 0};
  const auto found = checkpoints_.find(StepOf(path));
  if (found == checkpoints_.end()) return absl::NotFoundError(absl::StrCat(path, " does not exist"));
  if (found->second.damaged) return absl::DataLossError(absl::StrCat(path, " is damaged"));
  return found->second.state;
}

int64_t Disk::NewestWhole() const {
  for (auto at = checkpoints_.rbegin(); at != checkpoints_.rend(); ++at) {
    if (!at->second.damaged) return at->first;
  }
  return 0;
}

std::vector<coordinator::CheckpointCandidate> Disk::Candidates() const {
  std::vector<coordinator::CheckpointCandidate> candidates;
  for (auto at = checkpoints_.rbegin(); at != checkpoints_.rend(); ++at) {
    if (IsPast(at->second)) continue;
    candidates.push_back({PathOf(at->first), at->first, at->second.team, at->second.generation});
  }
  return candidates;
}

std::vector<std::string> Disk::Past() const {
  std::vector<std::string> past;
  for (const auto& [step, checkpoint] : checkpoints_) {
    if (IsPast(checkpoint)) past.push_back(PathOf(step));
  }
  return past;
}

bool Disk::IsPast(const Checkpoint& checkpoint) const {
  return coordinator::LeftOutSince(state_.rollbacks, checkpoint.state.samples_consumed) != nullptr;
}

uint64_t Disk::NewestGeneration() const {
  uint64_t newest = state_.generation;
  for (const auto& [step, checkpoint] : checkpoints_) newest = std::max(newest, checkpoint.generation);
  for (const auto& [key, shard] : shards_) newest = std::max(newest, key.generation);
  return newest;
}

double Disk::WriteSeconds() { return world_.now() < slow_until_ ? world_.Uniform(0.3, 2) : world_.Uniform(0.001, 0.3); }

}  // namespace zerofleet::sim
