// The table of commands, parsing, and how an error becomes a line and an exit code.
#include "cli/command_line.h"

#include <algorithm>
#include <exception>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/nearest.h"
#include "services/build_info.h"

namespace zerofleet {
namespace {

constexpr int kUsage = 2;

using AddCommand = void (*)(CLI::App& app, CommandBody& body);
constexpr AddCommand kCommands[] = {AddTrainCommand,  AddCoordinatorCommand, AddWorkerCommand,
                                    AddStatusCommand, AddPlanCommand,        AddCheckpointCommand,
                                    AddEvalCommand,   AddGenerateCommand,    AddBenchCommand};

std::string VersionText() {
  const BuildInfo& build = GetBuildInfo();
  return absl::StrCat("zerofleet ", build.version, " (", build.revision, build.cuda ? ", with CUDA" : ", CPU", ")");
}

// Every error leaves through here, so that it is one line whatever a library put in its message.
int PrintError(const Output& output, std::string message, int exit_code) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  while (!message.empty() && message.back() == ' ') message.pop_back();
  output.err << "zerofleet: " << message << std::endl;
  return exit_code;
}

// The command that `app`'s arguments reached, for "see ... --help".
std::string ReachedCommand(const CLI::App& app) {
  std::string name = "zerofleet";
  const CLI::App* reached = &app;
  while (!reached->get_subcommands().empty()) {
    reached = reached->get_subcommands().front();
    absl::StrAppend(&name, " ", reached->get_name());
  }
  return name;
}

// A first argument that is no command deserves a better answer than the parser's.
std::string UnknownCommand(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2) return "wants a command, such as train; see zerofleet --help";
  const std::string first = argv[1];
  if (first.empty() || first[0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), first) != names.end()) return "";
  return absl::StrCat("no command \"", absl::CHexEscape(first), "\"; the nearest is ", Nearest(first, names),
                      "; see zerofleet --help");
}

int Run(const CommandBody& body, const Output& output) {
  const absl::StatusOr<int> exit_code = body(output);
  output.out.flush();
  if (exit_code.ok()) return *exit_code;
  return PrintError(output, std::string(exit_code.status().message()), ExitCode(exit_code.status()));
}

}  // namespace

int RunCommandLine(int argc, const char* const* argv, const Output& output) {
  CLI::App app("Trains transformer language models under ZeRO, as a coordinator and N workers.", "zerofleet");
  app.footer(
      "Example:\n  zerofleet train examples/tiny.yaml --workers 2\n\n"
      "Exit codes: 0 done, 2 usage or configuration, 3 data or checkpoint, 4 the fleet, 130/143 stopped by a signal.");
  app.set_version_flag("--version", VersionText());
  app.require_subcommand(1);
  CommandBody body;
  for (const AddCommand add : kCommands) add(app, body);

  const std::string unknown = UnknownCommand(app, argc, argv);
  if (!unknown.empty()) return PrintError(output, unknown, kUsage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    output.out << app.help();  // of the command that was reached
    return 0;
  } catch (const CLI::CallForVersion& version) {
    output.out << version.what() << "\n";
    return 0;
  } catch (const CLI::ParseError& error) {
    return PrintError(output, absl::StrCat(error.what(), "; see ", ReachedCommand(app), " --help"), kUsage);
  }
  try {
    return Run(body, output);
  } catch (const std::exception& error) {
    return PrintError(output, absl::StrCat("a fault of this program: ", error.what()), 1);
  }
}

}  // namespace zerofleet
