// One use ahead where a slot is free, each use posted once.
#include "worker/zero/prefetch.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<model::UnitKind> Units() {
  using enum model::UnitKind;
  return {kEmbedding, kBlock, kBlock, kBlock, kHead};
}

TEST(PlanSlots, BlocksShareTwo) {
  SlotPlan plan = PlanSlots(Units());
  EXPECT_THAT(plan.slot_of_unit, ElementsAre(0, 1, 2, 1, 3));
  EXPECT_THAT(plan.unit_of_slot, ElementsAre(0, 1, 1, 4));
}

TEST(PlanSlots, AKindOfOneUnitHasASlotOfItsOwn) {
  using enum model::UnitKind;
  EXPECT_THAT(PlanSlots({kEmbedding, kBlock, kHead}).slot_of_unit, ElementsAre(0, 1, 2));
}

TEST(PrefetchOrder, RunsOneUseAhead) {
  PrefetchOrder order(PlanSlots(Units()));
  order.Begin({0, 1, 2, 3});
  EXPECT_THAT(order.Acquire(0), ElementsAre(0, 1));
  order.Release(0);
  EXPECT_THAT(order.Acquire(1), ElementsAre(2));
  order.Release(1);
  EXPECT_THAT(order.Acquire(2), ElementsAre(3));
  order.Release(2);
  EXPECT_THAT(order.Acquire(3), IsEmpty());
  order.Release(3);
}

TEST(PrefetchOrder, WaitsForABusySlot) {
  PrefetchOrder order(PlanSlots(Units()));
  order.Begin({4, 0, 0, 1});
  EXPECT_THAT(order.Acquire(4), ElementsAre(4, 0));
  EXPECT_THAT(order.Acquire(0), IsEmpty());  // the next use needs the slot just taken
  order.Release(0);
  EXPECT_THAT(order.Acquire(0), ElementsAre(0, 1));
  order.Release(0);
  order.Release(4);
  EXPECT_THAT(order.Acquire(1), IsEmpty());
  order.Release(1);
}

TEST(PrefetchOrder, OutOfOrderUseIsABug) {
  PrefetchOrder order(PlanSlots(Units()));
  order.Begin({0, 1});
  EXPECT_DEATH(order.Acquire(1), "check failed");
}

}  // namespace
}  // namespace zerofleet::zero
