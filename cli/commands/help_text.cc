// Usage, arguments, options, commands, footer; see help_text.h.
#include "cli/commands/help_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace zerofleet::cli {
namespace {

constexpr int kHelpIndent = 2, kHelpGap = 2;
constexpr int kMostTitleColumns = 26;  // a longer title has a line of its own

struct Entry {
  std::string title, text;
};

std::string Section(const std::string& heading, const std::vector<Entry>& entries, const Terminal& terminal) {
  if (entries.empty()) return "";
  int widest = 0;
  for (const Entry& entry : entries) {
    if (DisplayWidth(entry.title) <= kMostTitleColumns) widest = std::max(widest, DisplayWidth(entry.title));
  }
  const int column = kHelpIndent + widest + kHelpGap;
  std::string text = absl::StrCat("\n", terminal.Paint(Style::kHeading, heading), "\n");
  for (const Entry& entry : entries) {
    const int used = kHelpIndent + DisplayWidth(entry.title);
    absl::StrAppend(&text, std::string(kHelpIndent, ' '), entry.title);
    if (used + kHelpGap > column) {
      absl::StrAppend(&text, "\n", std::string(column, ' '));
    } else {
      text.append(column - used, ' ');
    }
    absl::StrAppend(&text, WrapText(entry.text, terminal.text_columns(), column, column), "\n");
  }
  return text;
}

// The words of a command line; text in double quotes is one word.
std::vector<std::string> Words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (const char c : line + " ") {
    if (c == '"') quoted = !quoted;
    if (c != ' ' || quoted) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  return words;
}

std::string FooterText(const std::string& footer, const Terminal& terminal) {
  std::string text = "\n";
  for (const absl::string_view part : absl::StrSplit(footer, '\n')) {
    const std::string line(part);
    const bool is_command = line.rfind("  ", 0) == 0;
    text += is_command ? WrapCommandLine(line.substr(kHelpIndent), terminal.text_columns(), kHelpIndent)
                       : WrapText(line, terminal.text_columns());
    text += '\n';
  }
  return text;
}

}  // namespace

std::string WrapCommandLine(const std::string& line, int columns, int indent) {
  constexpr int kBackslash = 2;
  const std::vector<std::string> words = Words(line);
  std::string text(indent, ' ');
  int width = indent;
  for (size_t i = 0; i < words.size(); ++i) {
    const int reserved = i + 1 < words.size() ? kBackslash : 0;
    if (i > 0 && width + 1 + DisplayWidth(words[i]) + reserved > columns) {
      absl::StrAppend(&text, " \\\n", std::string(2 * indent, ' '));
      width = 2 * indent;
    } else if (i > 0) {
      text += ' ';
      ++width;
    }
    text += words[i];
    width += DisplayWidth(words[i]);
  }
  return text;
}

std::string HelpText(const CommandInfo& command, const Terminal& terminal) {
  std::vector<Entry> arguments, options, commands;
  for (const OptionInfo& option : command.options) {
    (option.positional ? arguments : options).push_back({option.Usage(), option.FullDescription()});
  }
  for (const CommandInfo& each : command.commands) commands.push_back({each.name, each.description});
  const int columns = terminal.text_columns();
  std::string text = absl::StrCat(terminal.Paint(Style::kHeading, "Usage:"), " ",
                                  WrapText(command.Usage(), columns, /*indent=*/4, /*used=*/7), "\n\n",
                                  WrapText(command.description, columns), "\n");
  absl::StrAppend(&text, Section("Arguments:", arguments, terminal), Section("Options:", options, terminal),
                  Section("Commands:", commands, terminal), FooterText(command.footer, terminal));
  return text;
}

}  // namespace zerofleet::cli
