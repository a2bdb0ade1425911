// The form of every subcommand: a function that adds it to the parser, and the body that runs when it is chosen.
//
// One file per command, command_<name>.cc. A new command is a new file, its Add function below, and a line in
// command_line.cc's table.
#ifndef ZEROFLEET_CLI_COMMANDS_COMMAND_H_
#define ZEROFLEET_CLI_COMMANDS_COMMAND_H_

#include <functional>
#include <iosfwd>

#include "absl/status/statusor.h"
#include "cli/launcher/child_process.h"
#include "cli/report/terminal.h"
#include "worker/model/model.h"

namespace CLI {
class App;
}  // namespace CLI

namespace zerofleet::cli {

// The program that this command line runs in, if it is not our own executable: Python with the package `zerofleet`
// (python/).
struct Host {
  ProcessCommand command;                  // starts another process of the same kind
  model::ForeignPasses* passes = nullptr;  // the passes of a PyTorch module, for workers; may be null
};

// Where a command writes. Results go to `out`, progress and errors to `err`.
struct Output {
  std::ostream& out;
  std::ostream& err;
  Terminal out_terminal, err_terminal;  // what `out` and `err` are shown on
  const Host* host = nullptr;           // null: our executable

  ProcessCommand command() const { return host == nullptr ? ProcessCommand() : host->command; }
};

// Runs the chosen command. The value is the exit code; an error is printed as one line and determines the code.
using CommandBody = std::function<absl::StatusOr<int>(const Output&)>;

// The type name of an option that takes another program's arguments.
inline constexpr char kScriptArguments[] = "ARGS";

// Adds the command to `app`; its parser's callback sets `body`.
void AddTrainCommand(CLI::App& app, CommandBody& body);
void AddRunCommand(CLI::App& app, CommandBody& body);
void AddCoordinatorCommand(CLI::App& app, CommandBody& body);
void AddWorkerCommand(CLI::App& app, CommandBody& body);
void AddStatusCommand(CLI::App& app, CommandBody& body);
void AddPlanCommand(CLI::App& app, CommandBody& body);
void AddReportCommand(CLI::App& app, CommandBody& body);
void AddCheckpointCommand(CLI::App& app, CommandBody& body);
void AddEvalCommand(CLI::App& app, CommandBody& body);
void AddGenerateCommand(CLI::App& app, CommandBody& body);
void AddSweepCommand(CLI::App& app, CommandBody& body);
void AddTokenizeCommand(CLI::App& app, CommandBody& body);
void AddDoctorCommand(CLI::App& app, CommandBody& body);
void AddVerifyRunCommand(CLI::App& app, CommandBody& body);
void AddBenchCommand(CLI::App& app, CommandBody& body);
void AddCompletionCommand(CLI::App& app, CommandBody& body);
void AddHelpCommand(CLI::App& app, CommandBody& body);
void AddConfigCommand(CLI::App& app, CommandBody& body);
void AddConfigSchemaCommand(CLI::App& app, CommandBody& body);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_COMMAND_H_
