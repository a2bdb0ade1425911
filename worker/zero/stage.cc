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

}  // namespace

const StageRow& Stage(int stage, ReduceEvery every) {
  ZF_CHECK(stage >= 0 && stage <= 3);
  return every == ReduceEvery::kStep ? kReducedOnce[stage] : kStages[stage];
}

}  // namespace zerofleet::zero
