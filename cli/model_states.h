// The bytes of model states per worker and the traffic of a step, as the ZeRO paper counts them (§3, §5, table 1).
//
// Parameters and gradients take 2 bytes each, optimizer states 12: an fp32 master copy and two fp32 moments. No
// padding, activations or buffers: those depend on the run.
#ifndef ZEROFLEET_CLI_MODEL_STATES_H_
#define ZEROFLEET_CLI_MODEL_STATES_H_

#include <cstdint>

namespace zerofleet {

struct ModelStates {
  double parameters = 0, gradients = 0, optimizer = 0;  // bytes per worker
  double total() const { return parameters + gradients + optimizer; }
};

// `stage` is 0 to 3, `parameters` the model's size in elements.
ModelStates PaperModelStates(int stage, double parameters, int64_t workers);

// Elements one worker sends in a step: 2 (stage 3: 3) times the parameters, times (workers - 1) / workers.
double PaperTrafficElements(int stage, double parameters, int64_t workers);

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_MODEL_STATES_H_
