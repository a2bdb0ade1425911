// `zerofleet config`: another program's configuration as one of ours, translated by the Python package.
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "cli/commands/command.h"
#include "cli/commands/python.h"

namespace zerofleet::cli {
namespace {

struct ConfigFlags {
  std::string python, deepspeed;
  int workers = 1;
};

}  // namespace

void AddConfigCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<ConfigFlags>();
  CLI::App* command =
      app.add_subcommand("config", "Translate a configuration of DeepSpeed's and say what became of it.");
  command->add_option("--from-deepspeed", flags->deepspeed, "Its configuration")->required()->type_name("FILE.json");
  command->add_option("--workers", flags->workers, "Number of workers that the run is to have")
      ->type_name("N")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command->add_option("--python", flags->python, "The Python with the package zerofleet; or $ZEROFLEET_PYTHON")
      ->type_name("EXE");
  command->footer("Example:\n  zerofleet config --from-deepspeed ds.json --workers 4 > run.yaml");
  command->callback([flags, &body] {
    body = [flags](const Output&) -> absl::StatusOr<int> {
      return BecomePackage(PythonOf(flags->python),
                           {"config", "--from-deepspeed", flags->deepspeed, "--workers", absl::StrCat(flags->workers)});
    };
  });
}

}  // namespace zerofleet::cli
