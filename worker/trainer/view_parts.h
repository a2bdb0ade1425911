// What a training run builds when it enters a view and drops when it leaves: everything that depends on its rank or on
// the number of ranks. What does not (device, model, data files, configuration) stays with the run.
#ifndef ZEROFLEET_WORKER_TRAINER_VIEW_PARTS_H_
#define ZEROFLEET_WORKER_TRAINER_VIEW_PARTS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "worker/device/device.h"
#include "worker/device/step_control.h"
#include "worker/memory/arena.h"
#include "worker/memory/scratch_file.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "worker/parallel/group_communicators.h"
#include "worker/parallel/mesh.h"
#include "worker/trainer/checkpointer.h"
#include "worker/trainer/pace.h"
#include "worker/trainer/peak_meter.h"
#include "worker/trainer/rank_plan.h"
#include "worker/trainer/snapshot.h"
#include "worker/trainer/spike_rule.h"
#include "worker/zero/engine.h"
#include "worker/zero/layout.h"
#include "zerofleet/v1/checkpoint.pb.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::trainer {

// The names of the groups that a run's ranks join.
std::vector<std::string> GroupsOf(const v1::Config& config);

struct ViewParts {
  // What the parts are built from; borrowed, and must outlive them.
  struct Run {
    const v1::Config& config;
    model::Model& model;
    device::Device& device;
    const Clock& clock;
    Snapshot& saved;  // the last save's snapshot
    const std::shared_ptr<SaveMeter>& saves;
  };

  // FailedPrecondition if the global batch cannot be shared by the view's ranks, ResourceExhausted if memory is short,
  // Internal for a view whose tensor groups are not of the configured size.
  static absl::StatusOr<std::unique_ptr<ViewParts>> Build(const Run& run, const parallel::Mesh& mesh,
                                                          parallel::GroupCommunicators groups);
  // Waits for a write in progress, and for the device to stop using the memory.
  ~ViewParts();

  const parallel::Mesh mesh;
  const RankPlan plan;
  const model::ModelSpec& spec;
  const zero::ZeroLayout& layout;
  parallel::GroupCommunicators groups;
  std::unique_ptr<device::Stream> stream;
  std::unique_ptr<memory::Arena> device_arena, host_arena;
  std::unique_ptr<memory::ScratchFile> scratch;  // null where the states are in memory
  std::unique_ptr<zero::ZeroEngine> engine;
  std::unique_ptr<Checkpointer> checkpointer;

  PeakMeter peak;           // all ranks together
  bool knows_peak = false;  // the peak is known from the previous view and is not measured again
  Pace pace;
  std::optional<SpikeRule> spikes;  // set once training has begun
  int64_t steps_done = 0;
  int64_t loaded_samples = 0;
  v1::BestLoss loaded_best;
  v1::Receipt loaded_receipt;
  device::StepControl loaded_control;
  std::string base_digest;       // digest of the manifest that frozen weights were read from; empty: nothing is frozen
  std::string initial_digest;    // digest of init_from's manifest, if its weights were loaded; otherwise empty
  bool loaded_own_part = false;  // only this rank's part of the state was loaded, nothing that other ranks own
  struct LaunchTime {
    double at, learning_rate;
  };
  std::deque<LaunchTime> launches;
  double collected_at = 0;
  device::LinkTraffic exported_link;  // what has been exported to the metrics

 private:
  ViewParts(const parallel::Mesh& where, RankPlan rank, parallel::GroupCommunicators joined);
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_VIEW_PARTS_H_
