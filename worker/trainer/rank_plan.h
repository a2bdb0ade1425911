// What a rank of a run is, before anything of it exists: its part of the model, what it stores where, how it runs the
// model, and what follows from these. Computed once; the run, the planner and the fleet's digests read it.
#ifndef ZEROFLEET_WORKER_TRAINER_RANK_PLAN_H_
#define ZEROFLEET_WORKER_TRAINER_RANK_PLAN_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/device/dtype.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "worker/parallel/mesh.h"
#include "worker/zero/integrity.h"
#include "worker/zero/layout.h"
#include "worker/zero/schedule.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::trainer {

// The type of parameters, activations, and gradients on the wire.
device::DType ComputeType(const v1::Config& config);

// How every rank runs the model. Returns the errors of CheckpointingOf.
absl::StatusOr<model::ModelRun> ModelRunOf(const v1::Config& config);

// What a rank of this data group keeps, and where. FindOptimizer must know the configuration's optimizer.
zero::ZeroOptions ZeroOptionsOf(const v1::Config& config, const parallel::Group& data);

class RankPlan {
 public:
  // Returns the errors of ModelSpec::Create (a model that these many parts cannot share), FindOptimizer and
  // CheckpointingOf.
  static absl::StatusOr<RankPlan> Of(const v1::Config& config, const parallel::Mesh& mesh);

  const model::ModelSpec& spec() const { return spec_; }  // this rank's part of the model
  const zero::ZeroLayout& layout() const { return layout_; }
  const model::ModelRun& run() const { return run_; }

  absl::StatusOr<std::unique_ptr<model::Model>> CreateModel(device::Device& device) const;
  // Every collective that this rank posts in a step that makes these checks.
  absl::StatusOr<std::vector<zero::ScheduledCollective>> Schedule(const zero::StepChecks& checks = {}) const;

 private:
  RankPlan(const v1::Config& config, const parallel::Mesh& mesh, model::ModelSpec spec, const model::ModelRun& run);

  v1::Config config_;
  model::ModelSpec spec_;
  model::ModelRun run_;
  zero::ZeroLayout layout_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_RANK_PLAN_H_
