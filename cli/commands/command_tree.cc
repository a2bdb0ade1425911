// From the parser's objects to plain values; see command_tree.h.
#include "cli/commands/command_tree.h"

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace zerofleet::cli {
namespace {

// Splits the parser's "TEXT:INT in [1 - 8]" into the value's name and its range. "TYPE:{bf16,fp32}" becomes
// "bf16|fp32".
void SplitTypeName(const std::string& type_name, OptionInfo& option) {
  const size_t range = type_name.find(" in [");
  const size_t colon = range == std::string::npos ? range : type_name.rfind(':', range);
  option.value = type_name.substr(0, colon);
  if (range != std::string::npos) {
    const size_t begin = range + 5;
    option.range = absl::StrReplaceAll(type_name.substr(begin, type_name.find(']', begin) - begin), {{" - ", " to "}});
  }
  if (const size_t set = option.value.find(":{"); set != std::string::npos && option.value.back() == '}') {
    option.value = absl::StrReplaceAll(option.value.substr(set + 2, option.value.size() - set - 3), {{",", "|"}});
  }
  // The parser's type names mean nothing to users.
  if (option.value == "TEXT") option.value = "VALUE";
  if (option.value == "INT" || option.value == "UINT") option.value = "N";
  if (option.value == "FLOAT") option.value = "NUMBER";
}

OptionInfo DescribeOption(const CLI::Option& from) {
  OptionInfo option;
  option.positional = from.get_positional();
  option.required = from.get_required();
  option.description = from.get_description();
  option.environment = from.get_envname();
  if (option.positional) {
    option.names = {from.get_name(true)};
  } else {
    for (const std::string& name : from.get_snames()) option.names.push_back("-" + name);
    for (const std::string& name : from.get_lnames()) option.names.push_back("--" + name);
  }
  if (from.get_items_expected_max() > 0) {
    SplitTypeName(from.get_type_name(), option);
    option.default_value = from.get_default_str();
    option.repeatable =
        from.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll && from.get_delimiter() == '\0';
  }
  return option;
}

CommandInfo Describe(const CLI::App& app, const std::string& parent) {
  CommandInfo command;
  command.name = app.get_name();
  command.path = parent.empty() ? command.name : absl::StrCat(parent, " ", command.name);
  command.description = app.get_description();
  command.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) command.options.push_back(DescribeOption(*option));
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    command.commands.push_back(Describe(*each, command.path));
  }
  return command;
}

}  // namespace

std::string OptionInfo::Usage() const {
  return absl::StrCat(absl::StrJoin(names, ", "), value.empty() || positional ? "" : absl::StrCat(" ", value));
}

std::string OptionInfo::FullDescription() const {
  std::vector<std::string> remarks;
  if (!range.empty()) remarks.push_back(range);
  if (!default_value.empty()) remarks.push_back(absl::StrCat("default: ", default_value));
  if (required) remarks.push_back("required");
  if (repeatable) remarks.push_back("may be repeated");
  if (!environment.empty()) remarks.push_back(absl::StrCat("or $", environment));
  return remarks.empty() ? description : absl::StrCat(description, " (", absl::StrJoin(remarks, "; "), ")");
}

std::string CommandInfo::Usage() const {
  std::string usage = path;
  for (const OptionInfo& option : options) {
    if (option.required && !option.positional) absl::StrAppend(&usage, " ", option.Usage());
  }
  absl::StrAppend(&usage, " [OPTIONS]");
  for (const OptionInfo& option : options) {
    if (!option.positional) continue;
    absl::StrAppend(&usage, " ", option.required ? "" : "[", option.names[0], option.required ? "" : "]");
  }
  return commands.empty() ? usage : absl::StrCat(usage, " COMMAND");
}

CommandInfo DescribeCommand(const CLI::App& app) {
  std::string parent;
  for (const CLI::App* above = app.get_parent(); above != nullptr; above = above->get_parent()) {
    parent = parent.empty() ? above->get_name() : absl::StrCat(above->get_name(), " ", parent);
  }
  return Describe(app, parent);
}

}  // namespace zerofleet::cli
