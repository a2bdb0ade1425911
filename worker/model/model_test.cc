// The helpers every family shares.
#include "worker/model/model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet {
namespace {

using ::testing::ElementsAre;

TEST(UsedUnits, AreTheAcquiredOnesInOrder) {
  EXPECT_THAT(
      UsedUnits(
          {{UnitEvent::kAcquire, 2}, {UnitEvent::kRelease, 2}, {UnitEvent::kDeliver, 2}, {UnitEvent::kAcquire, 0}}),
      ElementsAre(2, 0));
}

}  // namespace
}  // namespace zerofleet
