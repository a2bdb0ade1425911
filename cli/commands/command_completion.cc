// `zerofleet completion`, `help` and `config-schema`: texts about the command line itself, for shells, man and editors.
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/command_tree.h"
#include "cli/commands/completion.h"
#include "cli/commands/help_text.h"
#include "cli/commands/man_page.h"
#include "cli/config/config_schema.h"
#include "cli/config/keys.h"
#include "cli/config/nearest.h"
#include "services/common/build_info.h"
#include "worker/model/presets.h"

namespace zerofleet::cli {
namespace {

CompletionWords WordsToComplete() {
  CompletionWords words;
  for (const Key& key : Keys()) words.keys.push_back(key.name);
  for (const model::ModelPreset& preset : model::ModelPresets()) words.presets.push_back(preset.name);
  return words;
}

absl::StatusOr<int> RunCompletion(const std::string& shell, const CommandInfo& root, const Output& output) {
  if (shell == "bash") {
    output.out << BashCompletion(root, WordsToComplete());
  } else if (shell == "zsh") {
    output.out << ZshCompletion(root, WordsToComplete());
  } else if (shell == "fish") {
    output.out << FishCompletion(root, WordsToComplete());
  } else {
    return absl::InvalidArgumentError(absl::StrCat("SHELL: must be bash, zsh or fish, got \"", shell, "\""));
  }
  return 0;
}

absl::StatusOr<int> RunHelp(const std::vector<std::string>& path, bool man, const CommandInfo& root,
                            const Output& output) {
  if (man) {
    output.out << ManPage(root, services::GetBuildInfo().version);
    return 0;
  }
  const CommandInfo* command = &root;
  for (const std::string& name : path) {
    const CommandInfo* below = nullptr;
    std::vector<std::string> names;
    for (const CommandInfo& each : command->commands) {
      names.push_back(each.name);
      if (each.name == name) below = &each;
    }
    if (below == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown command \"", name, "\" of ", command->path,
                       names.empty() ? ", which has none" : absl::StrCat("; ", NearestOrAll(name, names))));
    }
    command = below;
  }
  output.out << HelpText(*command, output.out_terminal);
  return 0;
}

}  // namespace

void AddCompletionCommand(CLI::App& app, CommandBody& body) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes commands in bash, zsh or fish.");
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required()->type_name("bash|zsh|fish");
  command->footer(
      "Example:\n  zerofleet completion bash > ~/.local/share/bash-completion/completions/zerofleet\n\n"
      "For zsh, write it to a file named _zerofleet in a directory of $fpath; for fish, to\n"
      "~/.config/fish/completions/zerofleet.fish.");
  command->callback([shell, &app, &body] {
    body = [shell, &app](const Output& output) { return RunCompletion(*shell, DescribeCommand(app), output); };
  });
}

void AddHelpCommand(CLI::App& app, CommandBody& body) {
  struct Flags {
    std::vector<std::string> path;
    bool man = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("help", "Print the help of a command, or the manual page.");
  command->add_option("COMMAND", flags->path,
                      "The command, such as checkpoint list; without one, the list of commands");
  command->add_flag("--man", flags->man, "Print the manual page of all commands, in roff");
  command->footer("Example:\n  zerofleet help checkpoint export\n  zerofleet help --man > zerofleet.1");
  command->callback([flags, &app, &body] {
    body = [flags, &app](const Output& output) {
      return RunHelp(flags->path, flags->man, DescribeCommand(app), output);
    };
  });
}

void AddConfigSchemaCommand(CLI::App& app, CommandBody& body) {
  CLI::App* command = app.add_subcommand("config-schema", "Print the JSON schema of the configuration, for editors.");
  command->footer(
      "Example:\n  zerofleet config-schema > zerofleet.schema.json\n\n"
      "An editor with a YAML language server checks a file that begins with:\n"
      "  # yaml-language-server: $schema=zerofleet.schema.json");
  command->callback([&body] {
    body = [](const Output& output) -> absl::StatusOr<int> {
      output.out << ConfigSchemaText();
      return 0;
    };
  });
}

}  // namespace zerofleet::cli
