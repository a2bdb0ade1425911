// The bytes of model states per worker and the traffic of a step, as the ZeRO paper counts them (§3, §5, table 1).
//
// Parameters and gradients take the bytes of their type: 2 each in bf16 and fp16, which the paper counts, 4 in fp32.
// Optimizer states take K in every precision, which follows from the optimizer's table: 12 with AdamW, as in the paper.
// No padding, activations or buffers: those depend on the run. Steps are of one micro-batch; with several, gradients
// accumulate in fp32.
#ifndef ZEROFLEET_CLI_PLANNER_MODEL_STATES_H_
#define ZEROFLEET_CLI_PLANNER_MODEL_STATES_H_

#include <cstdint>
#include <string>

#include "worker/optim/optimizer.h"

namespace zerofleet::cli {

struct ModelStates {
  double parameters = 0, gradients = 0, optimizer = 0;  // bytes per worker
  double total() const { return parameters + gradients + optimizer; }
};

// Bytes of one parameter or one gradient, kept or sent; `precision` is "bf16", "fp16" or "fp32".
double ElementBytes(const std::string& precision);
// Bytes of model states per parameter in stage 0, where nothing is split: with AdamW the paper's 16, or 20 in fp32.
double UnsplitBytesPerParameter(const std::string& precision, const optim::OptimizerRow& optimizer);

// `stage` is 0 to 3, `parameters` the model's size in elements.
ModelStates PaperModelStates(int stage, double parameters, int64_t workers, const std::string& precision = "bf16",
                             const optim::OptimizerRow& optimizer = optim::Optimizers().front());

// Elements one worker sends in a step: 2 (stage 3: 3) times the parameters, times (workers - 1) / workers.
double PaperTrafficElements(int stage, double parameters, int64_t workers);
// Bytes rank 0 sends in a step. With one team these are the paper's elements in the type of parameters and gradients;
// with several, gradients travel in that type within a team of `team` consecutive ranks, and in fp32 between teams.
double SentBytes(int stage, double parameters, int64_t workers, const std::string& precision, int team);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_MODEL_STATES_H_
