// The training state as the coordinator, which knows no models, is told of it.
#ifndef ZEROFLEET_WORKER_TRAINER_FLEET_STATE_H_
#define ZEROFLEET_WORKER_TRAINER_FLEET_STATE_H_

#include "absl/status/status.h"
#include "coordinator/fleet.h"

namespace zerofleet::trainer {

// Fills in the units and the state vectors of the model that the parameters' configuration describes. InvalidArgument
// for a configuration that no model can have.
absl::Status AddTrainingState(coordinator::FleetParameters* parameters);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_FLEET_STATE_H_
