// Column widths, then parts, then lines; see table.h.
#include "cli/report/table.h"

#include <algorithm>

namespace zerofleet::cli {
namespace {

constexpr int kColumnGap = 2;

std::string Spaces(int count) { return std::string(std::max(0, count), ' '); }

}  // namespace

std::vector<int> TextTable::Widths() const {
  std::vector<int> widths;
  for (const auto& row : rows_) {
    if (row.size() > widths.size()) widths.resize(row.size());
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], DisplayWidth(row[c]));
  }
  return widths;
}

std::string TextTable::RenderColumns(const std::vector<int>& widths, const std::vector<size_t>& columns, int indent,
                                     const Terminal& terminal) const {
  std::string text;
  for (const auto& row : rows_) {
    std::string line = Spaces(indent);
    for (const size_t c : columns) {
      const std::string cell = c < row.size() ? row[c] : "";
      const std::string padding = Spaces(widths[c] - DisplayWidth(cell));
      if (c > 0) line += Spaces(kColumnGap);
      line += c == 0 ? cell + padding : padding + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += &row == &rows_[0] ? terminal.Paint(Style::kHeading, line) : line;
    text += '\n';
  }
  return text;
}

std::string TextTable::RenderList(int indent, const Terminal& terminal) const {
  const std::vector<std::string>& header = rows_[0];
  int widest = 0;
  for (const std::string& name : header) widest = std::max(widest, DisplayWidth(name));
  const int value_indent = indent + widest + kColumnGap;
  std::string text;
  for (size_t r = 1; r < rows_.size(); ++r) {
    if (r > 1) text += '\n';
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      const std::string name = c < header.size() ? header[c] : "";
      text += Spaces(indent) + terminal.Paint(Style::kHeading, name) +
              Spaces(value_indent - indent - DisplayWidth(name)) +
              WrapText(rows_[r][c], terminal.columns(), value_indent, value_indent) + "\n";
    }
  }
  return text;
}

std::string TextTable::Render(int indent, const Terminal& terminal) const {
  const std::vector<int> widths = Widths();
  const int columns = terminal.columns();
  std::vector<std::vector<size_t>> parts = {{0}};
  int width = indent + widths[0];
  for (size_t c = 1; c < widths.size(); ++c) {
    const int added = kColumnGap + widths[c];
    if (columns > 0 && width + added > columns) {
      if (indent + widths[0] + added > columns) return RenderList(indent, terminal);
      parts.push_back({0});
      width = indent + widths[0];
    }
    parts.back().push_back(c);
    width += added;
  }
  std::string text;
  for (const auto& part : parts) {
    if (!text.empty()) text += '\n';
    text += RenderColumns(widths, part, indent, terminal);
  }
  return text;
}

}  // namespace zerofleet::cli
