// The speed of a real training step: a fleet of processes on this machine, timed step by step.
#ifndef ZEROFLEET_CLI_COMMANDS_BENCH_STEP_H_
#define ZEROFLEET_CLI_COMMANDS_BENCH_STEP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/commands/step_profile.h"
#include "cli/launcher/stop_signals.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct StepBenchOptions {
  std::string preset = "gpt2-124m", precision = "bf16", device = "auto", collectives = "auto";
  int64_t context = 256, global_sequences = 8, steps = 5, warm_up = 1;
  int64_t micro_sequences = 0, vocab = 0;  // 0: the configuration's defaults
  int workers = 2, zero_stage = 2;
  bool profile = false;           // profile the ops of each rank
  std::vector<std::string> sets;  // KEY=VALUE; these override the members above
};

// The memory of worker 0 after the last step, in bytes.
struct StepMemory {
  int64_t planned = 0;  // reserved on the device: the sum of its memory plan
  int64_t runtime = 0;  // further memory in use on the device: context, libraries, workspaces
  int64_t used = 0;     // in use on the device as the driver counts it, including other processes
  int64_t total = 0;    // the device's memory
};

struct StepRate {
  std::string device;
  int64_t parameters = 0, micro_sequences = 0, vocab = 0;
  double median_seconds = 0;  // the median step, without warm-up steps
  double tokens_per_second = 0, mfu = 0;
  double peak_flops_per_second = 0;  // over all workers: the datasheet's, or the measured GEMM peak
  std::optional<StepMemory> memory;  // only on a device with memory of its own
  // By op: how many shapes the device's libraries refuse, so that they run on slower kernels. Only on a device with
  // memory of its own.
  std::map<std::string, int> refused_shapes;
  // With StepBenchOptions::profile: the most that a rank can do, and what each rank did.
  StepCeilings ceilings;
  std::vector<RankProfile> profile;
};

// The configuration of the run to time, on synthetic data that is written to `dir`.
absl::StatusOr<v1::Config> StepBenchConfig(const StepBenchOptions& options, const std::string& dir);

// Runs the fleet in a temporary directory, which is removed, and ends it without a checkpoint.
absl::StatusOr<StepRate> BenchStep(const StepBenchOptions& options, StopSignals& signals);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_BENCH_STEP_H_
