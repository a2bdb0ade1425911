// The speed of a real training step: a fleet of processes on this machine, timed step by step.
#ifndef ZEROFLEET_CLI_BENCH_STEP_H_
#define ZEROFLEET_CLI_BENCH_STEP_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "cli/stop_signals.h"

namespace zerofleet {

struct StepBenchOptions {
  std::string preset = "gpt2-124m", precision = "bf16";
  int64_t context = 256, global_sequences = 8, steps = 5;
  int workers = 2, zero_stage = 2;
};

struct StepRate {
  int64_t parameters = 0;
  double median_seconds = 0;  // of a step, the first left out
  double tokens_per_second = 0, mfu = 0;
  double peak_flops_per_second = 0;  // of all workers: the GEMM peak measured at their start
};

// Runs the fleet on made-up tokens in a temporary directory, which is removed, and ends it without a checkpoint.
absl::StatusOr<StepRate> BenchStep(const StepBenchOptions& options, const StopSignals& signals);

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_BENCH_STEP_H_
