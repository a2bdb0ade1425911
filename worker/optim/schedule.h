// The learning rate as a function of the step.
#ifndef ZEROFLEET_WORKER_OPTIM_SCHEDULE_H_
#define ZEROFLEET_WORKER_OPTIM_SCHEDULE_H_

#include <cstdint>

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::optim {

// The rate used by `step` (1-based) of `steps`: linear from 0 to the peak over warmup_steps (step 1 uses peak/warmup),
// then cosine or linear down to min_learning_rate, reached at the last step, or constant. With `wsd` it is constant up
// to the last decay_steps (Hu et al. 2024): a run that goes on from a checkpoint before its decay, with `steps` at that
// checkpoint's step plus decay_steps, decays from there on. With `restarts` it is a cosine that begins again at the
// peak every cycle_steps (Loshchilov and Hutter 2017).
double LearningRate(const v1::OptimizerConfig& optimizer, const v1::ScheduleConfig& schedule, int64_t steps,
                    int64_t step);

}  // namespace zerofleet::optim

#endif  // ZEROFLEET_WORKER_OPTIM_SCHEDULE_H_
