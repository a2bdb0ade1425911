// Alignment of text tables, and how they are split for a narrow terminal.
#include "cli/report/table.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(TextTable, AlignsTheFirstColumnLeftAndTheOthersRight) {
  TextTable table({"rank", "bytes", ""});
  table.Add({"0", "1"});
  table.Add({"12345", "1000000", "µs"});
  EXPECT_EQ(table.Render(1),
            " rank     bytes\n"
            " 0            1\n"
            " 12345  1000000  µs\n");
}

TextTable Wide() {
  TextTable table({"rank", "parameters", "gradients", "sum"});
  table.Add({"0", "1.0 KiB", "0 B", "1.0 KiB"});
  table.Add({"1"});
  return table;
}

TEST(TextTable, BreaksBetweenColumnsWhereTheTerminalEnds) {
  // "rank  parameters  gradients      sum" takes 36 columns.
  EXPECT_EQ(Wide().Render(0, Terminal::OfSize(36, 24, true, false)),
            "rank  parameters  gradients      sum\n"
            "0        1.0 KiB        0 B  1.0 KiB\n"
            "1\n");
  EXPECT_EQ(Wide().Render(0, Terminal::OfSize(35, 24, true, false)),
            "rank  parameters  gradients\n"
            "0        1.0 KiB        0 B\n"
            "1\n"
            "\n"
            "rank      sum\n"
            "0     1.0 KiB\n"
            "1\n");
}

TEST(TextTable, ListsTheCellsWhereTheFirstColumnLeavesNoRoom) {
  TextTable table({"path", "step", "written by"});
  table.Add({"checkpoints/a-long-name/step-00000100", "100", "2 workers, stage 3"});
  table.Add({"checkpoints/a-long-name/step-00000050", "50", "1 worker, stage 0"});
  EXPECT_EQ(table.Render(1, Terminal::OfSize(40, 24, true, false)),
            " path        checkpoints/a-long-name/step-00000100\n"
            " step        100\n"
            " written by  2 workers, stage 3\n"
            "\n"
            " path        checkpoints/a-long-name/step-00000050\n"
            " step        50\n"
            " written by  1 worker, stage 0\n");
}

TEST(TextTable, PaintsItsHeader) {
  TextTable table({"a"});
  table.Add({"1"});
  EXPECT_EQ(table.Render(0, Terminal::OfSize(40, 24, true, true)), "\x1b[1ma\x1b[0m\n1\n");
}

}  // namespace
}  // namespace zerofleet::cli
