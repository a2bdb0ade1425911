// The storage that the fleet shares: shards that may be torn or unsynced, checkpoints committed by their manifests, and
// the coordinator's own state.
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

// What a checkpoint holds, and a rank in its memory.
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
  // Its write failed, and its rank has removed it.
  void RemoveShard(const ShardKey& key) { shards_.erase(key); }
  // Whatever is not durable is gone.
  void LosePower();
  // What a coordinator that starts finds is durable from then on, and whoever was before it changes the directory no
  // more: it is named by what this returns.
  services::DirectoryHolder TakeOver();
  // The rule of services/storage/directory_holder.h: what a coordinator asks before it changes the directory.
  absl::Status CheckHolder(const services::DirectoryHolder& self) const {
    return services::CheckHolder("ckpt", holder_, self);
  }
  // What is so, whatever the rule says: how many coordinators have taken the directory, and when the last one did.
  int epoch() const { return epoch_; }
  double taken_at() const { return taken_at_; }
  uint64_t generation_taken() const { return generation_taken_; }  // that its state file knew then
  // The commit of this step was carried out, and whether its name is durable is not known.
  void ForgetSync(int64_t step) {
    if (IsCommitted(step)) checkpoints_[step].name_is_durable = false;
  }

  // Commits what this manifest lists, and prunes to the `keep` newest that are known. Never overwrites. kAll: the
  // coordinator does not come to hear of it, and prunes nothing.
  static constexpr int kAll = 1 << 30, kAllKnown = kAll - 1;
  absl::StatusOr<coordinator::CommittedStep> Commit(const v1::CheckpointManifest& manifest, int keep);
  // What a coordinator that keeps so many would remove.
  std::vector<int64_t> Surplus(int keep) const;
  // Removes them. `older`: by a coordinator that another has followed; then none that is one of the newest `keep`.
  void RemoveSteps(const std::vector<int64_t>& steps, int keep, bool older);
  // Removes the shards of a save that failed, and those of older generations.
  void Discard(const coordinator::DiscardSave& discard);
  absl::Status SetAside(const std::string& path);
  // Flips a bit of the newest checkpoint, if an older one is whole.
  void DamageNewest();

  // The commit of this step is one that a recovery went on without: the run may come to the step once more.
  void NoteLate(int64_t step) { late_.insert(step); }
  bool IsLate(int64_t step) const { return late_.contains(step); }

  bool HasShards(int64_t step, uint64_t generation) const;
  bool IsCommitted(int64_t step) const { return checkpoints_.contains(step); }
  bool Lists(const std::string& path) const { return IsCommitted(StepOf(path)); }
  // The state that all its shards hold; DataLoss if one is damaged or missing.
  absl::StatusOr<TrainingState> Load(const std::string& path) const;
  // The newest step whose checkpoint is listed and not damaged; 0 if there is none.
  int64_t NewestWhole() const;
  // What the coordinator finds when it is started.
  std::vector<coordinator::CheckpointCandidate> Candidates() const;
  // Those among what it finds that are of a course which was given up.
  std::vector<std::string> Past() const;
  uint64_t NewestGeneration() const;

  // Seconds that the next write takes.
  double WriteSeconds();
  void SlowDownUntil(double time) { slow_until_ = time; }
  // Until then, whatever a checkpoint needs cannot be written.
  void FillUntil(double time) { full_until_ = time; }
  bool IsFull() const { return world_.now() < full_until_; }
  const coordinator::CoordinatorState& state() const { return state_; }
  // `older`: by a coordinator that another has followed, which had begun before that.
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
    TrainingState state;  // that all its shards hold
    bool damaged = false;
    bool name_is_durable = true;
    bool is_known = true;  // to the coordinator that serves
  };

  void Prune(int keep);
  bool IsPast(const Checkpoint& checkpoint) const;
  // What was removed in the meantime stays so.
  void Advance(const ShardKey& key, Written written);
  // What is wrong with the shards of a manifest; empty if nothing is.
  std::string WhatIsWrong(const v1::CheckpointManifest& manifest) const;

  World& world_;
  const Curriculum& curriculum_;
  std::map<ShardKey, Shard> shards_;
  std::map<int64_t, Checkpoint> checkpoints_;  // by step
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
