// Aligned text tables for terminals.
#ifndef ZEROFLEET_CLI_TABLE_H_
#define ZEROFLEET_CLI_TABLE_H_

#include <string>
#include <vector>

namespace zerofleet {

// Rows of cells under a header: the first column stands left, the others right, two spaces between. A row may be
// shorter.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  // One line a row, each indented by `indent` spaces and ended by a newline.
  std::string Render(int indent = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_TABLE_H_
