// See trace_flags.h.
#include "cli/commands/trace_flags.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/status.h"

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

absl::StatusOr<std::optional<StepRange>> TracedStepsOf(const std::string& file, const std::string& steps) {
  constexpr int64_t kMostTracedSteps = 1000;
  if (file.empty() && steps.empty()) return std::nullopt;
  ZF_ASSIGN_OR_RETURN(const StepRange range, ParseStepRange("--trace-steps", steps, kMostTracedSteps));
  return range;
}

std::string TraceOfWorker(const std::string& file, int number) {
  const std::filesystem::path path(file);
  return path.parent_path() / absl::StrCat(path.stem().string(), "-", number, path.extension().string());
}

}  // namespace zerofleet::cli
