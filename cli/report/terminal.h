// What an output stream is shown on: how wide it is, whether a line can be rewritten, whether to use colour.
//
// The only place that decides width and colour. Every printer gets a Terminal and asks it.
#ifndef ZEROFLEET_CLI_REPORT_TERMINAL_H_
#define ZEROFLEET_CLI_REPORT_TERMINAL_H_

#include <functional>
#include <string>
#include <string_view>

namespace zerofleet::cli {

enum class Style { kHeading, kGood, kWarning, kError };

class Terminal {
 public:
  using Environment = std::function<const char*(const char* name)>;

  // A file or a pipe: plain lines of any width.
  Terminal() = default;

  // Describes what `descriptor` refers to. A terminal is live and coloured unless TERM is "dumb" or empty; a NO_COLOR
  // that is not empty turns colour off (https://no-color.org). `environment` is getenv, or a test's replacement.
  static Terminal Of(int descriptor, const Environment& environment);
  // A terminal of a fixed size, without a descriptor.
  static Terminal OfSize(int columns, int rows, bool live, bool color);

  // Whether written lines can be rewritten in place.
  bool live() const { return live_; }

  // The width in columns: the terminal's current one, else $COLUMNS, and at least 20. If neither is known, 80 on a
  // terminal and 0, which means any width, elsewhere.
  int columns() const;
  // The width for text that must be wrapped: columns(), but 80 where any width will do, and at most 120, since longer
  // lines read badly.
  int text_columns() const;
  // Lines of the screen; 0 if unknown.
  int rows() const;

  // `text` in the style's colour, or unchanged.
  std::string Paint(Style style, std::string_view text) const;

 private:
  int descriptor_ = -1;  // the terminal whose size is queried; -1: columns_ and rows_ are used
  int columns_ = 0, rows_ = 0;
  bool live_ = false, color_ = false;
};

// The columns that UTF-8 text takes, if all its characters have single width.
int DisplayWidth(std::string_view text);

// `text` broken at spaces so that no line is wider than `columns` (0: not broken), lines after the first indented by
// `indent` spaces. `used` columns of the first line are already used. A word that is wider than a line is not split, so
// that a path can still be copied. The text's own newlines are kept; none is added at its end.
std::string WrapText(std::string_view text, int columns, int indent = 0, int used = 0);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_TERMINAL_H_
