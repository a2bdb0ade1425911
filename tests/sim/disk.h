// The storage that the fleet shares: shards, which may be torn or unsynced; checkpoints, which their manifests commit;
// and the coordinator's own state.
#ifndef ZEROFLEET_TESTS_SIM_DISK_H_
#define ZEROFLEET_TESTS_SIM_DISK_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/fleet.h"
#include "services/storage/directory_holder.h"
#include "tests/sim/curriculum.h"
#include "tests/sim/world.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::sim {

// The state that a checkpoint holds, or a rank in memory.
struct TrainingState {
  uint64_t hash = 0;
  int64_t samples_consumed = 0;
};

struct ShardKey {
  int64_t step;
  uint64_t generation;
  int rank;
  auto operator<=>(const ShardKey&) const = default;  // NOLINT(modernize-use-nullptr): of its own making
};

class Disk {
 public:
  Disk(World& world, const Curriculum& curriculum) : world_(world), curriculum_(curriculum) {}

  // A write is slow, in parts: begun, complete, durable.
  void BeginShard(const ShardKey& key, uint64_t hash) { shards_[key] = {hash, Written::kBegun}; }
  void CompleteShard(const ShardKey& key) { Advance(key, Written::kComplete); }
  void SyncShard(const ShardKey& key) { Advance(key, Written::kDurable); }
  // The write failed, and its rank has removed the shard.
  void RemoveShard(const ShardKey& key) { shards_.erase(key); }
  // Loses everything that is not durable.
  void LosePower();
  // A coordinator that starts takes the directory. What it finds is durable from then on, and earlier coordinators must
  // no longer change the directory. Returns the name of its holder.
  services::DirectoryHolder TakeOver();
  // The rule of services/storage/directory_holder.h, which a coordinator checks before it changes the directory.
  absl::Status CheckHolder(const services::DirectoryHolder& self) const {
    return services::CheckHolder("ckpt", holder_, self);
  }
  // The facts, whatever the rule says: how many coordinators have taken the directory, and when the last one did.
  int epoch() const { return epoch_; }
  double taken_at() const { return taken_at_; }
  uint64_t generation_taken() const { return generation_taken_; }  // the generation in its state file then
  // The commit of this step was carried out, but its name may not be durable.
  void ForgetSync(int64_t step) {
    if (IsCommitted(step)) checkpoints_[step].name_is_durable = false;
  }

  // Commits the shards that this manifest lists, and prunes to the `keep` newest checkpoints that are known. Never
  // overwrites. With kAll the coordinator does not learn of the commit, and prunes nothing.
  static constexpr int kAll = 1 << 30, kAllKnown = kAll - 1;
  absl::StatusOr<coordinator::CommittedStep> Commit(const v1::CheckpointManifest& manifest, int keep);
  // The steps that a coordinator that keeps `keep` checkpoints would remove.
  std::vector<int64_t> Surplus(int keep) const;
  // Removes these steps. `older`: on behalf of a coordinator that another has followed; then none of the newest `keep`
  // may be among them.
  void RemoveSteps(const std::vector<int64_t>& steps, int keep, bool older);
  // Removes the shards of a save that failed, and those of older generations.
  void Discard(const coordinator::DiscardSave& discard);
  absl::Status SetAside(const std::string& path);
  // Flips a bit in the newest checkpoint, if an older one is whole.
  void DamageNewest();

  // Notes that a recovery went on without the commit of this step, so that the run may reach the step once more.
  void NoteLate(int64_t step) { late_.insert(step); }
  bool IsLate(int64_t step) const { return late_.contains(step); }

  bool HasShards(int64_t step, uint64_t generation) const;
  bool IsCommitted(int64_t step) const { return checkpoints_.contains(step); }
  bool Lists(const std::string& path) const { return IsCommitted(StepOf(path)); }
  // The state that all its shards hold; DataLoss if one is damaged or missing.
  absl::StatusOr<TrainingState> Load(const std::string& path) const;
  // The newest step whose checkpoint is listed and not damaged; 0 if there is none.
  int64_t NewestWhole() const;
  // The checkpoints that a coordinator finds when it starts.
  std::vector<coordinator::CheckpointCandidate> Candidates() const;
  // Those of the candidates that belong to a course of the run that was given up.
  std::vector<std::string> Past() const;
  uint64_t NewestGeneration() const;

  // Seconds that the next write takes.
  double WriteSeconds();
  void SlowDownUntil(double time) { slow_until_ = time; }
  // Until this time nothing that a checkpoint needs can be written.
  void FillUntil(double time) { full_until_ = time; }
  bool IsFull() const { return world_.now() < full_until_; }
  const coordinator::CoordinatorState& state() const { return state_; }
  // `older`: on behalf of a coordinator that had begun to write before another followed it.
  void WriteState(const coordinator::CoordinatorState& state, bool older);
  // The state that the newest coordinator has read or written.
  const coordinator::CoordinatorState& newest_state() const { return newest_state_; }

  static std::string PathOf(int64_t step) { return absl::StrCat("ckpt/step-", step); }
  static int64_t StepOf(const std::string& path);

 private:
  enum class Written { kMissing, kBegun, kComplete, kDurable };
  struct Shard {
    uint64_t hash = 0;
    Written written = Written::kMissing;
  };
  struct Checkpoint {
    uint64_t generation = 0;
    int team = 0;
    TrainingState state;  // the state that all its shards hold
    bool damaged = false;
    bool name_is_durable = true;
    bool is_known = true;  // known to the coordinator that serves
  };

  void Prune(int keep);
  bool IsPast(const Checkpoint& checkpoint) const;
  // A shard that was removed in the meantime stays removed.
  void Advance(const ShardKey& key, Written written);
  // What is wrong with the shards of a manifest; empty if nothing is.
  std::string WhatIsWrong(const v1::CheckpointManifest& manifest) const;

  World& world_;
  const Curriculum& curriculum_;
  std::map<ShardKey, Shard> shards_;
  std::map<int64_t, Checkpoint> checkpoints_;  // keyed by step
  std::set<int64_t> late_;
  coordinator::CoordinatorState state_, newest_state_;
  bool newest_has_written_ = false;
  services::DirectoryHolder holder_;
  double slow_until_ = 0, full_until_ = 0;
  int epoch_ = 0;
  double taken_at_ = 0;
  uint64_t generation_taken_ = 0;
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_DISK_H_
