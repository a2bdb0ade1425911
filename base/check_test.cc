// A check that holds is silent; one that does not names its condition.
#include "base/check.h"

#include "gtest/gtest.h"

namespace zerofleet {
namespace {

TEST(CheckDeathTest, NamesTheCondition) {
  ZF_CHECK(1 + 1 == 2);
  EXPECT_DEATH(ZF_CHECK(1 + 1 == 3), "check failed: 1 \\+ 1 == 3");
}

}  // namespace
}  // namespace zerofleet
