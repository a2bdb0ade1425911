// The allocations and frees that one rank of a training run would make, in order, if it used an allocator: every result
// of an op is a tensor of its own, from the op that writes it to the last one that reads it, as in frameworks that run
// op by op.
//
// The order and the sizes are those of this project's own step, from a dry run of the model under ZeRO stage 3: a block
// is gathered for each use, its gradient is summed in fp32, and the rank's shard of the sum is kept until the step
// ends. Scratch memory of fused ops (attention, cross-entropy) is left out.
#ifndef ZEROFLEET_BENCH_ALLOCATION_TRACE_H_
#define ZEROFLEET_BENCH_ALLOCATION_TRACE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/dtype.h"
#include "worker/model/checkpointing.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::bench {

struct AllocationEvent {
  int64_t tensor;
  int64_t bytes;  // 0: the tensor is freed
};

struct TrainingShape {
  v1::ModelConfig model;
  device::DType dtype = device::DType::kBF16;
  model::Checkpointing checkpointing;
  int64_t sequences = 1;       // in a micro-batch; a step has one micro-batch
  std::vector<int64_t> times;  // one per step: the tokens to which its sequences are padded
  int ranks = 1;               // ranks that share parameters and gradients
};

// The events of all steps in `shape.times`; everything is freed by the end.
absl::StatusOr<std::vector<AllocationEvent>> TraceTraining(const TrainingShape& shape);

// The most bytes that are in use at any time.
int64_t PeakBytes(const std::vector<AllocationEvent>& trace);

// Bytes of one contiguous arena in which every tensor has a place of its own for as long as it lives, chosen beforehand
// from all lifetimes: the largest tensor first, each at the lowest offset that is free throughout its life.
int64_t PlacedBytes(const std::vector<AllocationEvent>& trace);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_ALLOCATION_TRACE_H_
