// What a rank's saves are written from: a copy of its states, or the states themselves (checkpoint.snapshot).
#ifndef ZEROFLEET_WORKER_TRAINER_SAVE_CHOICE_H_
#define ZEROFLEET_WORKER_TRAINER_SAVE_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "worker/model/model.h"
#include "worker/parallel/mesh.h"
#include "worker/zero/layout.h"
#include "worker/zero/memory_plan.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::trainer {

struct SaveChoice {
  zero::SaveFrom from;
  std::string reason;                  // why `auto` means that; empty where the configuration chooses
  int64_t memory_bytes, stream_bytes;  // host memory that each choice needs in addition to the states
  memory::MemoryPlan plan;             // the memory plan with that choice

  const char* word() const { return from == zero::SaveFrom::kSnapshot ? "memory" : "stream"; }
};

// `auto` means `memory`, which holds no step up, unless no update follows a save (checkpoint.every_steps is 0), or the
// copy would take the plan over memory.host_limit. Ranks may choose differently; their files are the same either way.
SaveChoice ChooseSaves(const v1::Config& config, const model::Model& model, const zero::ZeroLayout& layout,
                       const device::Device& device);

// The same for a rank at this place in the mesh before any of it exists. `device` has as many compute threads as the
// run's: scratch memory grows with them. Returns the errors of RankPlan::Of.
absl::StatusOr<SaveChoice> PlanRankSaves(const v1::Config& config, const parallel::Mesh& mesh, device::Device& device);
// Every buffer of such a rank, as the run will reserve it.
absl::StatusOr<memory::MemoryPlan> PlanRankMemory(const v1::Config& config, const parallel::Mesh& mesh,
                                                  device::Device& device);

// Whether snapshots are taken at intervals, and whether a rank of a data group of this size keeps another's.
bool TakesSnapshots(const v1::Config& config);
bool KeepsReplicas(const v1::Config& config, int data_ranks);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SAVE_CHOICE_H_
