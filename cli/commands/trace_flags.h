// The flags --trace and --trace-steps of `train` and `worker`.
#ifndef ZEROFLEET_CLI_COMMANDS_TRACE_FLAGS_H_
#define ZEROFLEET_CLI_COMMANDS_TRACE_FLAGS_H_

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "cli/commands/step_range.h"

namespace zerofleet::cli {

// `what` says in the help what the file will contain. Each of the two flags needs the other.
void AddTraceFlags(CLI::App& command, const std::string& what, std::string& file, std::string& steps);

// The steps that --trace-steps gives; nothing if neither flag was given. Errors name the flag.
absl::StatusOr<std::optional<StepRange>> TracedStepsOf(const std::string& file, const std::string& steps);

// The trace file of worker `number` among several with the same flags: "a/rank.json" -> "a/rank-2.json".
std::string TraceOfWorker(const std::string& file, int number);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_TRACE_FLAGS_H_
