// The table of commands, parsing, and how an error becomes a line and an exit code.
#include "cli/commands/command_line.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "cli/commands/command_tree.h"
#include "cli/commands/help_text.h"
#include "cli/config/key_words.h"
#include "cli/config/nearest.h"
#include "services/common/build_info.h"

namespace zerofleet::cli {
namespace {

constexpr int kUsage = 2, kResources = 3;
constexpr size_t kLongestShown = 60;

using AddCommand = void (*)(CLI::App& app, CommandBody& body);
constexpr AddCommand kCommands[] = {
    AddTrainCommand, AddRunCommand,        AddCoordinatorCommand, AddWorkerCommand,      AddStatusCommand,
    AddPlanCommand,  AddReportCommand,     AddCheckpointCommand,  AddEvalCommand,        AddGenerateCommand,
    AddSweepCommand, AddVerifyRunCommand,  AddDoctorCommand,      AddTokenizeCommand,    AddBenchCommand,
    AddHelpCommand,  AddCompletionCommand, AddConfigCommand,      AddConfigSchemaCommand};

std::string VersionText() {
  const services::BuildInfo& build = services::GetBuildInfo();
  return absl::StrCat("zerofleet ", build.version, " (", build.revision, build.cuda ? ", with CUDA" : ", CPU", ")");
}

// All errors are printed here, so that each is a single line, whatever a library has put into its message.
int PrintError(const Output& output, std::string message, int exit_code) {
  // A control character in a flag's value must not reach the terminal.
  std::replace_if(
      message.begin(), message.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  while (!message.empty() && message.back() == ' ') message.pop_back();
  output.err << output.err_terminal.Paint(Style::kError, "zerofleet:") << " " << message << std::endl;
  return exit_code;
}

// The command that `app`'s arguments reached.
const CLI::App& Reached(const CLI::App& app) {
  const CLI::App* reached = &app;
  while (!reached->get_subcommands().empty()) reached = reached->get_subcommands().front();
  return *reached;
}

struct CommandWord {
  const char *word, *command;
};

// Commands as other tools call them, and ours.
constexpr CommandWord kCommandWords[] = {
    {"start", "train"},
    {"launch", "train"},
    {"fit", "train"},
    {"finetune", "train"},
    {"resume", "train"},
    {"evaluate", "eval"},
    {"test", "eval"},
    {"sample", "generate"},
    {"encode", "tokenize"},
    {"preprocess", "tokenize"},
    {"infer", "generate"},
    {"chat", "generate"},
    {"benchmark", "bench"},
    {"ps", "status"},
    {"info", "status"},
    {"top", "status"},
    {"master", "coordinator"},
    {"server", "coordinator"},
    {"export", "checkpoint export"},
    {"import", "checkpoint import"},
    {"convert", "checkpoint export"},
    {"verify", "checkpoint verify"},
    {"list", "checkpoint list"},
    {"estimate", "plan"},
    {"memory", "plan"},
    {"version", "--version"},
};

// The message for a missing or unknown command, better than the parser's; empty if the first argument is a command or a
// flag.
std::string UnknownCommand(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2) return "a command is missing, such as train (see zerofleet --help)";
  const std::string first = argv[1];
  if (first.empty() || first[0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), first) != names.end()) return "";
  std::string suggestion = NearestOrAll(first, names);
  for (const CommandWord& row : kCommandWords) {
    if (first == row.word) suggestion = absl::StrCat("use zerofleet ", row.command);
  }
  return absl::StrCat("unknown command \"", absl::CHexEscape(first.substr(0, 60)), "\"; ", suggestion,
                      " (see zerofleet --help)");
}

// What to use instead of `flag`, which `command` does not have; empty if unknown.
std::string FlagSuggestion(const CommandInfo& command, const std::string& flag) {
  std::vector<std::string> names;
  bool takes_keys = false, takes_arguments = false;
  for (const OptionInfo& option : command.options) {
    takes_arguments = takes_arguments || option.value == kScriptArguments;
    if (option.positional) continue;
    names.insert(names.end(), option.names.begin(), option.names.end());
    takes_keys = takes_keys || option.value == "KEY=VALUE";
  }
  const std::string nearest = Nearest(flag, names);
  if (!nearest.empty()) return absl::StrCat("; did you mean ", nearest, "?");
  if (takes_arguments) return "; the script's own arguments go behind --, as in SCRIPT -- --epochs 3";
  if (!takes_keys) return "";
  const KeyWord* word = FindKeyWord(flag);
  if (word == nullptr) return "";
  if (*word->key == '\0') return absl::StrCat("; ", word->remark);
  return absl::StrCat("; use --set ", word->key, "=VALUE");
}

// The parser's message; for unknown flags it suggests the right ones.
std::string UsageMessage(const CLI::App& app, const CLI::ParseError& error) {
  const CommandInfo command = DescribeCommand(Reached(app));
  const std::string see = absl::StrCat(" (see ", command.path, " --help)");
  absl::string_view flag_with_value = error.what();
  if (absl::ConsumeSuffix(&flag_with_value, " was given a disallowed flag override")) {
    return absl::StrCat("--", flag_with_value, " takes no value", see);
  }
  const absl::string_view what = error.what();
  constexpr absl::string_view kTwice = ": At Most 1 required but received ", kNoNumber = "Could not convert: ";
  if (const size_t at = what.find(kTwice); at != absl::string_view::npos) {
    return absl::StrCat(what.substr(0, at), " takes one value, got ", what.substr(at + kTwice.size()), see);
  }
  if (const size_t at = what.find(" = "); absl::StartsWith(what, kNoNumber) && at != absl::string_view::npos) {
    return absl::StrCat(what.substr(kNoNumber.size(), at - kNoNumber.size()), ": must be a number, got \"",
                        absl::CHexEscape(what.substr(at + 3, kLongestShown)), "\"", see);
  }
  // For a group of commands without one of them, the parser's own message says too little.
  const bool group = !command.commands.empty();
  const bool extras = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (!group && !extras) return absl::StrCat(error.what(), see);
  std::string extra;
  for (const std::string& each : app.remaining(/*recurse=*/true)) {
    if (extra.empty() || (!group && each[0] == '-' && extra[0] != '-')) extra = each;
  }
  if (extra.empty() && group) return absl::StrCat("a command is missing, such as ", command.commands.front().name, see);
  if (extra.empty()) return absl::StrCat(error.what(), see);
  const std::string flag = extra.substr(0, extra.find('='));
  const std::string shown = absl::CHexEscape(flag.substr(0, kLongestShown));
  if (group && flag[0] != '-') {
    std::vector<std::string> names;
    for (const CommandInfo& each : command.commands) names.push_back(each.name);
    return absl::StrCat("unknown command \"", shown, "\" of ", command.path, "; ", NearestOrAll(flag, names), see);
  }
  if (flag.empty() || flag[0] != '-') return absl::StrCat("unexpected argument \"", shown, "\"", see);
  return absl::StrCat("unknown option ", shown, FlagSuggestion(command, flag), see);
}

// Paths, and the names that a certificate is compared with. An empty one would stand for "not given", as if the flag
// were not there.
bool MustSaySomething(const OptionInfo& option) {
  const std::string& value = option.value;
  return absl::StartsWith(value, "FILE") || absl::EndsWith(value, "DIR") || absl::EndsWith(value, "PATH") ||
         value == "SCRIPT.py" || value == "EXE" || absl::StartsWith(option.names.back(), "--tls-");
}

// The message for a path or name that is empty, as that of a variable that is not set; empty if there is none.
std::string EmptyValue(const CLI::App& command) {
  const CommandInfo described = DescribeCommand(command);
  size_t at = 0;
  for (const CLI::Option* option : command.get_options()) {
    const OptionInfo& info = described.options[at++];
    if (!MustSaySomething(info)) continue;
    for (const std::string& value : option->results()) {
      if (!value.empty()) continue;
      return absl::StrCat(info.names.back(), ": must not be empty",
                          info.required ? "" : "; leave it out if it is not wanted", " (see ", described.path,
                          " --help)");
    }
  }
  return "";
}

int Run(const CommandBody& body, const Output& output) {
  const absl::StatusOr<int> exit_code = body(output);
  output.out.flush();
  if (exit_code.ok()) return *exit_code;
  return PrintError(output, std::string(exit_code.status().message()), ExitCode(exit_code.status()));
}

int ParseAndRun(int argc, const char* const* argv, const Output& output) {
  CLI::App app("Trains transformer language models under ZeRO, as a coordinator and N workers.", "zerofleet");
  app.footer(
      "Example:\n  zerofleet train examples/tiny.yaml --workers 2\n\n"
      "Exit codes: 0 done, 2 usage or configuration, 3 data or checkpoint, 4 the fleet, 130/143 stopped by a signal.");
  app.set_version_flag("--version", VersionText(), "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.option_defaults()->disable_flag_override();
  CommandBody body;
  for (const AddCommand add : kCommands) add(app, body);

  const std::string unknown = UnknownCommand(app, argc, argv);
  if (!unknown.empty()) return PrintError(output, unknown, kUsage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    output.out << HelpText(DescribeCommand(Reached(app)), output.out_terminal);
    return 0;
  } catch (const CLI::CallForVersion& version) {
    output.out << version.what() << "\n";
    return 0;
  } catch (const CLI::ParseError& error) {
    return PrintError(output, UsageMessage(app, error), kUsage);
  }
  const std::string empty = EmptyValue(Reached(app));
  if (!empty.empty()) return PrintError(output, empty, kUsage);
  return Run(body, output);
}

}  // namespace

int RunCommandLine(int argc, const char* const* argv, const Output& output) {
  signal(SIGPIPE, SIG_IGN);  // a reader may close the pipe early; writes then fail, which is handled below
  int exit_code = 0;
  try {
    exit_code = ParseAndRun(argc, argv, output);
  } catch (const std::system_error& error) {  // thrown by std::thread
    return PrintError(output,
                      absl::StrCat("this process may start no more threads: ", error.code().message(),
                                   "; raise the limit on processes (ulimit -u) or on memory (ulimit -v)"),
                      kResources);
  } catch (const std::bad_alloc&) {
    return PrintError(output, "out of memory", kResources);
  } catch (const std::exception& error) {
    return PrintError(output, absl::StrCat("internal error: ", error.what()), 1);
  }
  output.out.flush();
  if (output.out.good()) return exit_code;
  // The stream does not keep the reason; another write to the descriptor fails for the same one.
  errno = 0;
  [[maybe_unused]] const ssize_t probe = write(STDOUT_FILENO, "\n", 1);
  // A reader that has closed the pipe, such as head, has read all it needs.
  if (errno == EPIPE) return exit_code;
  const std::string why = errno == 0 ? "" : absl::StrCat(": ", std::strerror(errno));
  const int written = PrintError(output, absl::StrCat("standard output: cannot be written", why), kResources);
  return exit_code == 0 ? written : exit_code;
}

}  // namespace zerofleet::cli
