// Split gradients on their way to their owners through buckets of a constant size (ZeRO §6.2, C_B).
//
// Bands of gradients (ParameterSource::DeliverBand) fill a bucket in the order in which the backward makes them, in the
// compute type, across units; a full one is reduced while the next one fills. A shard is a long run of its unit, so
// most of a bucket has one owner, to whom all others would send at once. Instead every rank reduces an equal part of
// the bucket, the parts are gathered, and each rank takes out what it owns. That is an all-reduce, and the gather is
// the price of a constant size: each gradient travels twice. Sums are those of reduce.h to the bit.
#ifndef ZEROFLEET_WORKER_ZERO_BUCKETS_H_
#define ZEROFLEET_WORKER_ZERO_BUCKETS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "worker/zero/engine_parts.h"
#include "worker/zero/memory_plan.h"
#include "worker/zero/phases.h"

namespace zerofleet::zero {

class GradientBuckets {
 public:
  // `at_rest` is called for each unit once its shard in `resting` is complete for the step.
  GradientBuckets(const EngineParts& parts, PhaseMarks& marks, device::Tensor resting,
                  std::function<absl::Status(int unit)> at_rest);

  void SetMicroBatches(int64_t count) { micro_batches_ = count; }
  void BeginMicroBatch(int64_t micro_batch) { micro_batch_ = micro_batch; }
  // As ParameterSource::DeliverBand. The last band of a micro-batch sends the bucket even if it is not full.
  absl::Status Add(int unit, int64_t begin, int64_t count, device::Tensor values);
  // Work enqueued from now on finds everything that was added at rest.
  absl::Status Finish();

 private:
  // Elements of a unit, and where they are (`at`) in a bucket.
  struct Slice {
    int unit;
    int64_t begin, count, at;
  };
  struct Bucket {
    device::Tensor wire;  // in the compute type
    device::Tensor sums;  // equal to `wire` unless resting gradients are wider than the compute type
    int64_t filled = 0;
    int64_t micro_batch = 0;
    std::vector<Slice> slices;
    bool sent = false;
    collective::Communicator::Pending summed;
  };

  void Send(Bucket& bucket);
  absl::Status Drain(Bucket& bucket);
  void TakeOwned(const Bucket& bucket, const Slice& slice);

  const EngineParts& parts_;
  const ZeroLayout& layout_;
  PhaseMarks& marks_;
  const device::Tensor resting_;
  const std::function<absl::Status(int unit)> at_rest_;
  std::array<Bucket, kBuckets> buckets_;
  size_t filling_ = 0;
  int64_t micro_batch_ = 0, micro_batches_;
  int64_t added_ = 0;             // elements of this micro-batch, all units together
  std::vector<int64_t> drained_;  // by unit: elements of the last micro-batch taken out so far
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_BUCKETS_H_
