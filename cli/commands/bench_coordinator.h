// `zerofleet bench coordinator`: a coordinator in a process of its own, as in a run, and members without a model.
#ifndef ZEROFLEET_CLI_COMMANDS_BENCH_COORDINATOR_H_
#define ZEROFLEET_CLI_COMMANDS_BENCH_COORDINATOR_H_

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "bench/coordinator_benches.h"

namespace zerofleet::cli {

void AddCoordinatorFlags(CLI::App& command, bench::CoordinatorBenchOptions& options);

// Starts a coordinator, names it in `options`, and runs the bench against it.
absl::StatusOr<bench::CoordinatorRate> BenchOwnCoordinator(bench::CoordinatorBenchOptions options);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_BENCH_COORDINATOR_H_
