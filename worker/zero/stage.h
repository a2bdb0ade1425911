// The stages of ZeRO as rows of one table: what is split among the ranks, when it is gathered, when it is reduced.
//
// Every stage runs through the same engine, layout and order of summation; a stage is only its row (ZeRO §5.1 P_os,
// §5.2 P_os+g, §5.3 P_os+g+p; stage 0 is plain data parallelism).
#ifndef ZEROFLEET_WORKER_ZERO_STAGE_H_
#define ZEROFLEET_WORKER_ZERO_STAGE_H_

namespace zerofleet::zero {

// What makes whole parameters out of what the ranks updated.
enum class ParameterGather {
  kNever,        // every rank updated every parameter, from gradients gathered after their reduction
  kAfterUpdate,  // the owners' parts are gathered once, after the optimizer
  kBeforeUse,    // a unit is gathered for each pass that uses it, and released after
};

// When the gradients of a step's micro-batches are summed over the ranks: each micro-batch on its own, so that a rank
// need only keep its part of the sum, or all at once.
enum class ReduceEvery { kMicroBatch, kStep };

// In which order a step's gradients are summed: over the ranks, micro-batch by micro-batch; or over all micro-batches
// of all ranks in the order of the samples, in one chain that does not depend on the number of ranks. The chain makes
// each micro-batch be summed at once, and a rank keep only what it owns.
enum class ReduceOrder { kRanks, kSamples };

struct StageRow {
  int stage;
  bool split_optimizer, split_gradients, split_parameters;
  ParameterGather gather;
};

// `stage` is 0 to 3. Reducing once a step, which stages 0 and 1 always do in the order of ranks, keeps gradients whole.
const StageRow& Stage(int stage, ReduceEvery every = ReduceEvery::kMicroBatch, ReduceOrder order = ReduceOrder::kRanks);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STAGE_H_
