// What one rank of a training run would allocate and give back, in order, if it had an allocator: every result of an op
// is a tensor of its own from the op that makes it to the last that reads it, as in frameworks that run op by op.
//
// The order and the sizes are those of this project's own step, from a dry run of the model under ZeRO stage 3: a block
// is gathered for each use, its gradient is summed in fp32 and its part rests until the step ends. What the fused ops
// keep for themselves (attention's and cross-entropy's scratch) is left out.
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
  int64_t bytes;  // 0: it is given back
};

struct TrainingShape {
  v1::ModelConfig model;
  device::DType dtype = device::DType::kBF16;
  model::Checkpointing checkpointing;
  int64_t sequences = 1;       // in a micro-batch, one of which is a step
  std::vector<int64_t> times;  // of each step: tokens in its sequences, padded to the longest
  int ranks = 1;               // that share parameters and gradients
};

// Everything is given back by the end.
absl::StatusOr<std::vector<AllocationEvent>> TraceTraining(const TrainingShape& shape);

// The most bytes that are in use at a time.
int64_t PeakBytes(const std::vector<AllocationEvent>& trace);

// Bytes of one contiguous arena in which every tensor has a place of its own for as long as it lives, chosen beforehand
// from all lifetimes: the largest tensor first, each at the lowest offset that is free throughout its life.
int64_t PlacedBytes(const std::vector<AllocationEvent>& trace);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_ALLOCATION_TRACE_H_
