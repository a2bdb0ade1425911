// A run's name, for people and metrics.
#ifndef ZEROFLEET_CLI_COMMANDS_RUN_NAME_H_
#define ZEROFLEET_CLI_COMMANDS_RUN_NAME_H_

#include <string>

namespace CLI {
class App;
}

namespace zerofleet::cli {

// Adds --run-name; without it, callers use RunNameOf.
void AddRunNameFlag(CLI::App& command, std::string& name);

// The configuration file's name without its folder and extension: "tiny" for "examples/tiny.yaml".
std::string RunNameOf(const std::string& config_path);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_RUN_NAME_H_
