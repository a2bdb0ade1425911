// ZeRO, tables 1 and 2, compared with the figures that the paper prints.
#include <string>

#include "cli/planner/paper_tables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

// As printed: a row per number of devices; in it for each model (7.5B, 128B, 1T) P_os, P_os+g and P_os+g+p.
constexpr const char* kTable1[6][9] = {
    {"120", "120", "120", "2048", "2048", "2048", "16000", "16000", "16000"},
    {"52.5", "41.3", "30", "896", "704", "512", "7000", "5500", "4000"},
    {"35.6", "21.6", "7.5", "608", "368", "128", "4750", "2875", "1000"},
    {"31.4", "16.6", "1.88", "536", "284", "32", "4187", "2218", "250"},
    {"30.4", "15.4", "0.47", "518", "263", "8", "4046", "2054", "62.5"},
    {"30.1", "15.1", "0.12", "513", "257", "2", "4011", "2013", "15.6"},
};

TEST(Table1, EveryCellIsAsThePaperPrintsIt) {
  const std::vector<PaperMemoryCell> cells = PaperTable1();
  ASSERT_EQ(cells.size(), 54);
  for (size_t i = 0; i < cells.size(); ++i) {
    EXPECT_EQ(PaperGigabytes(cells[i].bytes), kTable1[i / 9][i % 9])
        << cells[i].parameters << " parameters, " << cells[i].devices << " devices, stage " << cells[i].stage;
  }
}

// The theoretical half of the table, in billions: the first row is as printed, the others are multiples of it, as the
// paper computes them.
TEST(Table2, LargestModelsAreThePapers) {
  constexpr double kFirstRow[] = {2, 7.6, 14.4, 128};
  const std::vector<PaperLargestCell> cells = PaperTable2();
  ASSERT_EQ(cells.size(), 20);
  for (const PaperLargestCell& cell : cells) {
    const double printed = kFirstRow[cell.stage] * cell.model_parallel * 1e9;
    EXPECT_NEAR(cell.parameters, printed, 0.05e9 * cell.model_parallel)
        << "MP " << cell.model_parallel << ", stage " << cell.stage;
    EXPECT_EQ(cell.devices, 64 * cell.model_parallel);
  }
}

}  // namespace
}  // namespace zerofleet::cli
