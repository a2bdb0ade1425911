// Amounts as horizontal bars of characters, beside their names and figures.
#ifndef ZEROFLEET_CLI_REPORT_BARS_H_
#define ZEROFLEET_CLI_REPORT_BARS_H_

#include <string>
#include <vector>

namespace zerofleet::cli {

struct Bar {
  std::string name, figure;
  double amount = 0;
};

// A line per bar, no wider than `columns` (at least 40): name, bar, figure. A full bar stands for `whole`; the bar of a
// larger amount is cut and ends in ">". An amount above 0 has a bar of at least one character.
std::string RenderBars(const std::vector<Bar>& bars, double whole, int columns);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_BARS_H_
