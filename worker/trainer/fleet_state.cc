// From a configuration to units and vectors; see fleet_state.h.
#include "worker/trainer/fleet_state.h"

#include "base/status.h"
#include "worker/model/spec.h"
#include "worker/optim/optimizer.h"
#include "worker/trainer/view_parts.h"
#include "worker/zero/state_vectors.h"

namespace zerofleet::trainer {

absl::Status AddTrainingState(coordinator::FleetParameters* parameters) {
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(parameters->config.model()));
  ZF_RETURN_IF_ERROR(optim::FindOptimizer(parameters->config.optimizer().name()).status());
  parameters->units = spec.units();
  parameters->states = [config = parameters->config, spec](int world_size) {
    return zero::StateVectors(
        zero::ZeroLayout(spec, ZeroOptionsOf(config, parallel::Mesh::OfOneNode(0, world_size).data())));
  };
  return absl::OkStatus();
}

}  // namespace zerofleet::trainer
