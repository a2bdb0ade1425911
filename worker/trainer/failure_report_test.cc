// What the coordinator is told of a failure; see failure_report.h.
#include "worker/trainer/failure_report.h"

#include <gtest/gtest.h>

#include "worker/memory/scratch_file.h"

namespace zerofleet::trainer {
namespace {

TEST(FailureReport, ARanksOwnStorageIsToldFromItsData) {
  const v1::Failure of_data = FailureOf(absl::DataLossError("data.bin: ends early"), 7);
  EXPECT_EQ(of_data.code(), static_cast<int>(absl::StatusCode::kDataLoss));
  EXPECT_EQ(of_data.step(), 7);
  EXPECT_FALSE(of_data.own_storage());
  const v1::Failure own = FailureOf(memory::OfScratchFile(absl::DataLossError("/nvme/states: has changed")), 7);
  EXPECT_EQ(own.code(), static_cast<int>(absl::StatusCode::kDataLoss));
  EXPECT_TRUE(own.own_storage());
}

}  // namespace
}  // namespace zerofleet::trainer
