// See run_name.h.
#include "cli/commands/run_name.h"

#include <filesystem>

#include "CLI/CLI.hpp"

namespace zerofleet::cli {

void AddRunNameFlag(CLI::App& command, std::string& name) {
  command.add_option("--run-name", name, "The run's name in metrics; by default the configuration file's")
      ->type_name("NAME");
}

std::string RunNameOf(const std::string& config_path) { return std::filesystem::path(config_path).stem().string(); }

}  // namespace zerofleet::cli
