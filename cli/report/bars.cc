// See bars.h.
#include "cli/report/bars.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cli/report/terminal.h"

namespace zerofleet::cli {
namespace {

constexpr int kLeastBarColumns = 40, kBarIndent = 2, kBarGap = 2;

std::string PaddedCell(const std::string& text, int width, bool right) {
  const std::string spaces(std::max(0, width - DisplayWidth(text)), ' ');
  return right ? spaces + text : text + spaces;
}

}  // namespace

std::string RenderBars(const std::vector<Bar>& bars, double whole, int columns) {
  int names = 0, figures = 0;
  for (const Bar& bar : bars) {
    names = std::max(names, DisplayWidth(bar.name));
    figures = std::max(figures, DisplayWidth(bar.figure));
  }
  const int room = std::max(1, std::max(columns, kLeastBarColumns) - kBarIndent - names - figures - 2 * kBarGap);
  std::string text;
  for (const Bar& bar : bars) {
    int length = 0;
    if (bar.amount > 0 && whole > 0) {
      length = std::max(1, static_cast<int>(std::lround(std::min(1.0, bar.amount / whole) * room)));
    }
    std::string drawn(length, '#');
    if (bar.amount > whole && length > 0) drawn.back() = '>';
    absl::StrAppend(&text, std::string(kBarIndent, ' '), PaddedCell(bar.name, names, false), std::string(kBarGap, ' '),
                    PaddedCell(drawn, room, false), std::string(kBarGap, ' '), PaddedCell(bar.figure, figures, true),
                    "\n");
  }
  return text;
}

}  // namespace zerofleet::cli
