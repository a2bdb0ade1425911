// Owner-only norm and the gather of the scalars; see norm.h.
#include "worker/zero/norm.h"

#include <vector>

#include "base/status.h"
#include "worker/zero/schedule.h"

namespace zerofleet {

absl::StatusOr<double> OwnedSquaredNorm(const ZeroLayout& layout, Tensor gradients, Ops& ops, Stream& stream,
                                        Device& device, double* sum) {
  double total = 0;
  for (int u = 0; u < layout.units(); ++u) {
    Tensor shard = gradients.Offset(layout.ShardOffset(u, layout.stage().split_gradients));
    ops.SumSquares(stream, layout.Owned(u).elements(), shard, sum);
    double unit_sum = 0;
    device.Copy(stream, &unit_sum, sum, sizeof unit_sum);
    ZF_RETURN_IF_ERROR(stream.Synchronize());
    total += unit_sum;
  }
  return total;
}

absl::StatusOr<StepScalars> SumOverRanks(const StepScalars& mine, Communicator& communicator) {
  std::vector<StepScalars> all(communicator.size());
  ZF_RETURN_IF_ERROR(communicator.AllGatherBytes(&mine, all.data(), sizeof(StepScalars), kScalarsUnit).Wait());
  StepScalars total;
  for (const StepScalars& one : all) {
    total.loss_sum += one.loss_sum;
    total.squared_norm += one.squared_norm;
    total.flags |= one.flags;
  }
  return total;
}

}  // namespace zerofleet
