// --trace and --trace-steps of train and worker.
#ifndef ZEROFLEET_CLI_COMMANDS_TRACE_FLAGS_H_
#define ZEROFLEET_CLI_COMMANDS_TRACE_FLAGS_H_

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "cli/commands/step_range.h"

namespace zerofleet::cli {

// `what` is written to the file, for the help. Either needs the other.
void AddTraceFlags(CLI::App& command, const std::string& what, std::string& file, std::string& steps);

// The value of --trace-steps, which errors name; nothing where neither flag was given.
absl::StatusOr<std::optional<StepRange>> TracedStepsOf(const std::string& file, const std::string& steps);

// The file of one of several workers with the same flags: "a/rank.json" -> "a/rank-2.json".
std::string TraceOfWorker(const std::string& file, int number);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_TRACE_FLAGS_H_
