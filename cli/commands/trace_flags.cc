// See trace_flags.h.
#include "cli/commands/trace_flags.h"

#include "absl/strings/str_cat.h"

namespace zerofleet::cli {

void AddTraceFlags(CLI::App& command, const std::string& what, std::string& file, std::string& steps) {
  CLI::Option* const trace =
      command.add_option("--trace", file, absl::StrCat("Write ", what, " to this file, for Perfetto or about:tracing"))
          ->type_name("FILE");
  CLI::Option* const of = command.add_option("--trace-steps", steps, "The steps that --trace writes, such as 10-12")
                              ->type_name("FIRST-LAST");
  trace->needs(of);
  of->needs(trace);
}

absl::StatusOr<StepRange> TracedStepsOf(const std::string& steps) {
  constexpr int64_t kMostTracedSteps = 1000;
  return ParseStepRange("--trace-steps", steps, kMostTracedSteps);
}

}  // namespace zerofleet::cli
