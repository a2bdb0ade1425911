// The table of stages; see stage.h.
#include "worker/zero/stage.h"

#include "base/check.h"

namespace zerofleet::zero {
namespace {

constexpr StageRow kStages[] = {
    // stage, split: optimizer, gradients, parameters
    {0, false, false, false, ParameterGather::kNever},
    {1, true, false, false, ParameterGather::kAfterUpdate},
    {2, true, true, false, ParameterGather::kAfterUpdate},
    {3, true, true, true, ParameterGather::kBeforeUse},
};
constexpr StageRow kReducedOnce[] = {
    kStages[0],
    kStages[1],
    {2, true, false, false, ParameterGather::kAfterUpdate},
    {3, true, false, true, ParameterGather::kBeforeUse},
};

// In the order of samples. Stage 0 keeps gradients whole, since it gathers them in the end.
constexpr StageRow kChained[] = {
    kStages[0],
    {1, true, true, false, ParameterGather::kAfterUpdate},
    kStages[2],
    kStages[3],
};

}  // namespace

const StageRow& Stage(int stage, ReduceEvery every, ReduceOrder order) {
  ZF_CHECK(stage >= 0 && stage <= 3);
  if (order == ReduceOrder::kSamples) return kChained[stage];
  return every == ReduceEvery::kStep ? kReducedOnce[stage] : kStages[stage];
}

}  // namespace zerofleet::zero
