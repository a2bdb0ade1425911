// Which weights of a checkpoint are read or exported.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_WEIGHTS_OF_H_
#define ZEROFLEET_WORKER_CHECKPOINT_WEIGHTS_OF_H_

namespace zerofleet::checkpoint {

// The weights of the step, or their average (ema), which not every checkpoint holds. Frozen weights are the same in
// both.
enum class WeightsOf { kStep, kAverage };

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_WEIGHTS_OF_H_
