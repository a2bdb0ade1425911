// Aligned text tables that fit the terminal.
#ifndef ZEROFLEET_CLI_REPORT_TABLE_H_
#define ZEROFLEET_CLI_REPORT_TABLE_H_

#include <string>
#include <vector>

#include "cli/report/terminal.h"

namespace zerofleet::cli {

// Rows of cells under a header: the first column is aligned left, the others right, two spaces between. A row may be
// shorter than the header.
//
// A table that is wider than the terminal is split between columns: as many as fit, then the rest below them, each
// part with the first column. If the first column leaves no room for another, every row becomes a list of its cells.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  // One line per row and part, each indented by `indent` spaces and ended by a newline.
  std::string Render(int indent = 0, const Terminal& terminal = {}) const;

 private:
  std::vector<int> Widths() const;
  std::string RenderColumns(const std::vector<int>& widths, const std::vector<size_t>& columns, int indent,
                            const Terminal& terminal) const;
  std::string RenderList(int indent, const Terminal& terminal) const;

  std::vector<std::vector<std::string>> rows_;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_REPORT_TABLE_H_
