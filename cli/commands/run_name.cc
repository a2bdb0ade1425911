// See run_name.h.
#include "cli/commands/run_name.h"

#include <filesystem>

#include "CLI/CLI.hpp"
#include "absl/strings/escaping.h"
#include "cli/commands/flag_checks.h"
#include "cli/config/utf8.h"

namespace zerofleet::cli {

void AddRunNameFlag(CLI::App& command, std::string& name) {
  command.add_option("--run-name", name, "The run's name in metrics; by default the configuration file's")
      ->check(PlainName())
      ->type_name("NAME");
}

std::string RunNameOf(const std::string& config_path) {
  std::string name = std::filesystem::path(config_path).stem().string();
  return IsPlainText(name) ? name : absl::CHexEscape(name);
}

}  // namespace zerofleet::cli
