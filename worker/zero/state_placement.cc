// See state_placement.h.
#include "worker/zero/state_placement.h"

namespace zerofleet::zero {

bool StatePlacement::Fits(const StageRow& stage, bool in_buckets) const {
  if (!leaves_device()) return timing == Timing::kInStep && !parameters_on_host;
  if (!stage.split_optimizer || in_buckets || fraction < 0 || fraction > 1) return false;
  if (timing == Timing::kDelayed && fraction != 1) return false;
  if (timing == Timing::kSpeculative && residence == Residence::kFile) return false;
  return !parameters_on_host || (fraction == 1 && stage.split_parameters);
}

}  // namespace zerofleet::zero
