// How the tables are printed; tests/paper/ compares them with the paper's own figures.
#include "cli/planner/paper_tables.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

TEST(PaperTables, FiguresAreCutOrRoundedAsThePaperDoes) {
  EXPECT_EQ(PaperGigabytes(41.25e9), "41.3");
  EXPECT_EQ(PaperGigabytes(4187.5e9), "4187");
  EXPECT_EQ(PaperGigabytes(1.875e9), "1.88");
  EXPECT_EQ(PaperGigabytes(32e9), "32");
}

TEST(PaperTables, NameTheirConvention) {
  EXPECT_THAT(Table1Text({}), HasSubstr("12 of optimizer states"));
  EXPECT_THAT(Table2Text({}), HasSubstr("GB = 1e9 bytes"));
  EXPECT_EQ(Table1Json()["cells"].size(), 54);
  EXPECT_EQ(Table2Json()["cells"].size(), 20);
}

TEST(PaperTables, FitEightyColumns) {
  for (const std::string& text :
       {Table1Text(Terminal::OfSize(80, 24, false, false)), Table2Text(Terminal::OfSize(60, 24, false, false))}) {
    size_t begin = 0;
    for (size_t end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin)) {
      EXPECT_LE(end - begin, 80) << text.substr(begin, end - begin);
    }
  }
}

}  // namespace
}  // namespace zerofleet::cli
