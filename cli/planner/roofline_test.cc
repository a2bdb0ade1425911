// Step times against arithmetic by hand, with all rates 1.
#include "cli/planner/roofline.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

Rates Ones() { return {1, 2, 1, 1, 1, 1, 1, true, 1, 0}; }

TEST(Roofline, ComputesBackwardTwiceAndAgain) {
  const StepTime plain = Roofline({.model_flops = 30, .pointwise_bytes = 3}, Ones());
  EXPECT_DOUBLE_EQ(plain.forward, 11);
  EXPECT_DOUBLE_EQ(plain.backward, 22);
  EXPECT_DOUBLE_EQ(plain.seconds(), 33);
  EXPECT_DOUBLE_EQ(plain.mfu, 15.0 / 33);
  const StepTime again = Roofline({.model_flops = 30, .recomputed_flops = 10}, Ones());
  EXPECT_DOUBLE_EQ(again.backward, 30);
  EXPECT_DOUBLE_EQ(again.mfu, 15.0 / 40);
}

TEST(Roofline, HidesCollectivesBehindProducts) {
  StepWork work = {.model_flops = 30};
  work.traffic.reduce = {.peer = 10};
  EXPECT_DOUBLE_EQ(Roofline(work, Ones()).seconds(), 30);
  work.traffic.largest_unit = 0.1;  // the last unit's reduction has nothing beside it
  EXPECT_DOUBLE_EQ(Roofline(work, Ones()).exposed_reduce, 1);
  work.traffic.reduce = {.peer = 10, .link = 40};  // 50 in all: 5 overlap with nothing, 45 with a backward of 20
  EXPECT_DOUBLE_EQ(Roofline(work, Ones()).exposed_reduce, 5 + 25);
  Rates cpu = Ones();
  cpu.overlaps = false;
  EXPECT_DOUBLE_EQ(Roofline(work, cpu).exposed_reduce, 50);
  work.traffic.tensor = {.peer = 7};
  EXPECT_DOUBLE_EQ(Roofline(work, Ones()).tensor, 7);
}

TEST(Roofline, GathersBesideTheForwardAndInStage3TheBackwardToo) {
  StepWork work = {.model_flops = 30};
  work.traffic.gather = {.link = 40};
  EXPECT_DOUBLE_EQ(Roofline(work, Ones()).exposed_gather, 30);  // overlaps with a forward of 10
  work.gathers_twice = true;
  EXPECT_DOUBLE_EQ(Roofline(work, Ones()).exposed_gather, 10);
  EXPECT_DOUBLE_EQ(Roofline(work, Ones()).exposed_reduce, 0);
}

TEST(Roofline, CopiesToTheHostBesideTheBackwardAndTheUpdate) {
  StepWork work = {.model_flops = 30, .host_update_bytes = 8, .copied_down = 25, .copied_up = 5};
  const StepTime time = Roofline(work, Ones());
  EXPECT_DOUBLE_EQ(time.update, 8);
  EXPECT_DOUBLE_EQ(time.exposed_copies, 5);  // 25, overlapping with a backward of 20
}

TEST(Roofline, EachOperationTakesItsTimeBesideItsBytes) {
  StepWork work = {.model_flops = 30};
  work.traffic.tensor = {.peer = 7, .operations = 4};
  work.traffic.gather = {.peer = 6, .operations = 2};
  Rates rates = Ones();
  rates.operation_seconds = 0.5;
  rates.overlaps = false;
  EXPECT_DOUBLE_EQ(Roofline(work, rates).tensor, 7 + 2);
  EXPECT_DOUBLE_EQ(Roofline(work, rates).exposed_gather, 6 + 1);
}

// The update takes as long as the slower of disk and host, which work at the same time.
TEST(Roofline, StatesOnDiskAreUpdatedAtTheDisksRate) {
  EXPECT_DOUBLE_EQ(Roofline({.host_update_bytes = 8, .disk_bytes = 20}, Ones()).update, 20);
  EXPECT_DOUBLE_EQ(Roofline({.host_update_bytes = 8, .disk_bytes = 5}, Ones()).update, 8);
}

}  // namespace
}  // namespace zerofleet::cli
