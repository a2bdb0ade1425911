// The stages of ZeRO as rows of one table: what is split among the ranks, when it is gathered, when it is reduced.
//
// Every stage runs through the same engine, layout and order of summation; a stage is nothing but its row
// (ZeRO §5.1 P_os, §5.2 P_os+g, §5.3 P_os+g+p; stage 0 is plain data parallelism).
#ifndef ZEROFLEET_WORKER_ZERO_STAGE_H_
#define ZEROFLEET_WORKER_ZERO_STAGE_H_

namespace zerofleet::zero {

// What makes whole parameters out of what the ranks updated.
enum class ParameterGather {
  kNever,        // every rank updated every parameter, from gradients gathered after their reduction
  kAfterUpdate,  // the owners' parts are gathered once, after the optimizer
  kBeforeUse,    // a unit is gathered for each pass that uses it, and released after
};

struct StageRow {
  int stage;
  bool split_optimizer, split_gradients, split_parameters;
  ParameterGather gather;
};

// `stage` is 0 to 3.
const StageRow& Stage(int stage);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STAGE_H_
