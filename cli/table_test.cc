// Alignment of text tables.
#include "cli/table.h"

#include "gtest/gtest.h"

namespace zerofleet {
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

}  // namespace
}  // namespace zerofleet
