// offload.fraction: auto against the memory plan itself: one step less would not fit.
#include "cli/planner/fraction.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/config/config.h"
#include "cli/planner/estimate.h"
#include "gtest/gtest.h"
#include "worker/trainer/rules.h"

namespace zerofleet::cli {
namespace {

v1::Config Offloaded(double fraction, int64_t limit) {
  v1::Config config = DefaultConfig("gpt2-char").value();
  config.mutable_parallel()->set_zero_stage(2);
  config.mutable_parallel()->set_workers(2);
  config.mutable_batch()->set_global_sequences(4);
  config.mutable_batch()->set_micro_sequences(2);
  config.mutable_offload()->set_optimizer("cpu");
  config.mutable_offload()->set_fraction(fraction);
  if (limit > 0) config.mutable_memory()->set_device_limit(absl::StrCat(limit >> 10, "KiB"));
  return config;
}

int64_t DeviceBytes(double fraction) { return PlanMemoryOf(Offloaded(fraction, 0))->Bytes(memory::Space::kDevice); }

double Planned(int64_t limit) {
  return WithPlannedFraction(Offloaded(trainer::kFractionByPlan, limit), 1)->offload().fraction();
}

TEST(Fraction, AsManyStatesStayAsTheLimitHasRoomFor) {
  const int64_t none = DeviceBytes(0), all = DeviceBytes(1);
  ASSERT_GT(none, all + (int64_t{16} << 20));
  for (const int64_t limit : {all + (none - all) / 4, all + (none - all) / 2, none - (int64_t{1} << 20)}) {
    const double fraction = Planned(limit);
    EXPECT_LE(DeviceBytes(fraction), limit >> 10 << 10);
    EXPECT_GT(DeviceBytes(fraction - 1e-4), limit) << fraction;
  }
}

TEST(Fraction, IsNothingWhereAllFitsAndAllWhereNothingDoes) {
  EXPECT_EQ(Planned(DeviceBytes(0) + 1024), 0);
  EXPECT_EQ(Planned(1024), 1);
}

TEST(Fraction, ANumberStaysAsItIs) {
  EXPECT_EQ(WithPlannedFraction(Offloaded(0.25, int64_t{1} << 30), 1)->offload().fraction(), 0.25);
}

// The planner's own functions accept auto too: for each choice that a pick compares it becomes a number of its own.
TEST(Fraction, APlanOfAutoIsThePlanOfItsNumber) {
  const int64_t limit = (DeviceBytes(0) + DeviceBytes(1)) / 2;
  const v1::Config open = Offloaded(trainer::kFractionByPlan, limit);
  EXPECT_EQ(PlanMemoryOf(open)->Bytes(memory::Space::kDevice), DeviceBytes(Planned(limit)));
  const Cluster cluster = ParseCluster({.gpus = "2"}).value();
  EXPECT_EQ(EstimateRank(open, cluster)->host_link_bytes,
            EstimateRank(Offloaded(Planned(limit), 0), cluster)->host_link_bytes);
}

}  // namespace
}  // namespace zerofleet::cli
