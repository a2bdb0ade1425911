// `zerofleet run`: a Python script that calls zerofleet.train.
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/commands/python.h"
#include "nlohmann/json.hpp"

namespace zerofleet::cli {
namespace {

constexpr char kOptionsVariable[] = "ZEROFLEET_TRAIN_OPTIONS";  // read by python/zerofleet/launch.py

struct RunOptions {
  std::string python, script;
  std::vector<std::string> options, sets, arguments;
};

// Runs the script. Our options are passed in the environment, since the arguments belong to the script.
absl::StatusOr<int> RunScript(const RunOptions& options) {
  if (access(options.script.c_str(), R_OK) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("SCRIPT: ", options.script, ": ", std::strerror(errno)));
  }
  std::vector<std::string> train = options.options;
  for (const std::string& set : options.sets) train.insert(train.end(), {"--set", set});
  setenv(kOptionsVariable, nlohmann::json(train).dump().c_str(), /*overwrite=*/1);
  std::vector<std::string> arguments = {options.script};
  const bool marked = !options.arguments.empty() && options.arguments.front() == "--";  // the parser keeps the "--"
  arguments.insert(arguments.end(), options.arguments.begin() + (marked ? 1 : 0), options.arguments.end());
  return BecomePython(PythonOf(options.python), arguments);
}

}  // namespace

void AddRunCommand(CLI::App& app, CommandBody& body) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a Python script that calls zerofleet.train.");
  command->add_option("--python", options->python, "The Python with the package zerofleet; or $ZEROFLEET_PYTHON")
      ->type_name("EXE");
  const auto pass_on = [options, command](const char* name, const char* type, const char* text) {
    command
        ->add_option_function<std::string>(
            name,
            [options, name](const std::string& value) {
              options->options.insert(options->options.end(), {name, value});
            },
            text)
        ->type_name(type);
  };
  pass_on("--workers", "N", "Number of workers; as --set parallel.workers=N");
  pass_on("--device", "auto|cpu", "Where to compute; as --set device=...");
  pass_on("--report", "FILE", "As for train");
  pass_on("--tensorboard", "DIR", "As for train");
  pass_on("--resume", "auto|none|PATH", "As for train");
  pass_on("--metrics-port", "PORT", "As for train");
  pass_on("--trace", "FILE", "As for train, with --trace-steps");
  pass_on("--trace-steps", "FIRST-LAST", "As for train");
  pass_on("--run-name", "NAME", "As for train");
  Repeatable(command->add_option("--set", options->sets, "Replaces one key of the configuration that the script names")
                 ->type_name("KEY=VALUE"));
  command->add_option("SCRIPT", options->script, "The script")->required()->type_name("SCRIPT.py");
  command->add_option("ARGS", options->arguments, "Its own arguments, after -- where they begin with a dash")
      ->type_name(kScriptArguments);
  command->footer("Example:\n  zerofleet run --workers 2 finetune.py");
  command->callback([options, &body] { body = [options](const Output&) { return RunScript(*options); }; });
}

}  // namespace zerofleet::cli
