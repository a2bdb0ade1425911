// ioctl, the environment and the line breaker; see terminal.h.
#include "cli/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace zerofleet::cli {
namespace {

constexpr int kLeastColumns = 20, kMostColumns = 10'000;
constexpr int kUsualColumns = 80, kMostTextColumns = 120;

// `text` as a whole number above 0; 0 for anything else.
int PositiveNumber(const char* text) {
  if (text == nullptr) return 0;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end && value > 0 ? value : 0;
}

const char* Code(Style style) {
  switch (style) {
    case Style::kHeading: return "1";
    case Style::kGood: return "32";
    case Style::kWarning: return "33";
    case Style::kError: return "1;31";
  }
  return "0";
}

}  // namespace

Terminal Terminal::Of(int descriptor, const Environment& environment) {
  Terminal terminal;
  terminal.columns_ = PositiveNumber(environment("COLUMNS"));
  if (isatty(descriptor) != 1) return terminal;
  const char* term = environment("TERM");
  const char* no_color = environment("NO_COLOR");
  terminal.descriptor_ = descriptor;
  terminal.live_ = term != nullptr && *term != '\0' && std::strcmp(term, "dumb") != 0;
  terminal.color_ = terminal.live_ && (no_color == nullptr || *no_color == '\0');
  if (terminal.columns_ == 0) terminal.columns_ = kUsualColumns;
  terminal.rows_ = PositiveNumber(environment("LINES"));
  return terminal;
}

Terminal Terminal::OfSize(int columns, int rows, bool live, bool color) {
  Terminal terminal;
  terminal.columns_ = columns;
  terminal.rows_ = rows;
  terminal.live_ = live;
  terminal.color_ = color;
  return terminal;
}

int Terminal::columns() const {
  winsize size = {};
  const bool told = descriptor_ >= 0 && ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const int columns = told ? size.ws_col : columns_;
  return columns == 0 ? 0 : std::clamp(columns, kLeastColumns, kMostColumns);
}

int Terminal::text_columns() const {
  const int own = columns();
  return own == 0 ? kUsualColumns : std::min(own, kMostTextColumns);
}

int Terminal::rows() const {
  winsize size = {};
  const bool told = descriptor_ >= 0 && ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return told ? size.ws_row : rows_;
}

std::string Terminal::Paint(Style style, std::string_view text) const {
  if (!color_ || text.empty()) return std::string(text);
  std::string painted = absl::StrCat("\x1b[", Code(style), "m");
  painted += text;
  return painted + "\x1b[0m";
}

int DisplayWidth(std::string_view text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return static_cast<int>(std::count_if(text.begin(), text.end(), begins));
}

std::string WrapText(std::string_view text, int columns, int indent, int used) {
  if (columns <= 0) return std::string(text);
  std::string wrapped;
  int width = used;
  bool line_has_word = false;
  size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '\n') {
      wrapped += '\n';
      wrapped.append(indent, ' ');
      width = indent;
      line_has_word = false;
      ++at;
      continue;
    }
    const size_t spaces_end = std::min(text.find_first_not_of(' ', at), text.size());
    const size_t word_end = std::min(text.find_first_of(" \n", spaces_end), text.size());
    const std::string_view spaces = text.substr(at, spaces_end - at),
                           word = text.substr(spaces_end, word_end - spaces_end);
    const int word_width = DisplayWidth(word), spaces_width = static_cast<int>(spaces.size());
    if (line_has_word && width + spaces_width + word_width > columns && !word.empty()) {
      wrapped += '\n';
      wrapped.append(indent, ' ');
      wrapped += word;
      width = indent + word_width;
    } else {
      wrapped += spaces;
      wrapped += word;
      width += spaces_width + word_width;
    }
    line_has_word = line_has_word || !word.empty();
    at = word_end;
  }
  return wrapped;
}

}  // namespace zerofleet::cli
