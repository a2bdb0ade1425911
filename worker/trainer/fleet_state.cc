// From a configuration to units and vectors; see fleet_state.h.
#include "worker/trainer/fleet_state.h"

#include "base/status.h"
#include "worker/model/spec.h"
#include "worker/optim/optimizer.h"
#include "worker/trainer/rank_plan.h"
#include "worker/zero/state_vectors.h"

namespace zerofleet::trainer {

absl::Status AddTrainingState(coordinator::FleetParameters* parameters) {
  const int tensor = static_cast<int>(parameters->config.parallel().tensor());
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec,
                      model::ModelSpec::Create(parameters->config.model(), {.index = 0, .count = tensor}));
  ZF_RETURN_IF_ERROR(optim::OptimizerOf(parameters->config).status());
  parameters->units = spec.units();  // the same in every part
  parameters->elements = spec.whole_parameters();
  parameters->states = [config = parameters->config, spec, tensor](int world_size) {
    return zero::StateVectors(
        zero::ZeroLayout(spec, ZeroOptionsOf(config, parallel::Mesh::OfOneNode(0, world_size, tensor).data())));
  };
  return absl::OkStatus();
}

}  // namespace zerofleet::trainer
