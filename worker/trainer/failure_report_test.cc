// What the coordinator is told of a failure; see failure_report.h.
#include "worker/trainer/failure_report.h"

#include <gtest/gtest.h>

#include "worker/collective/unreachable.h"
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

// A message that is not UTF-8 would end the worker's session, and the coordinator would not hear of the failure.
TEST(FailureReport, ALongMessageIsCutBetweenCharacters) {
  for (size_t before = 0; before < 3; ++before) {
    std::string text(before, 'x');
    while (text.size() < 5000) text += "\xE2\x82\xAC";
    const v1::Failure failure = FailureOf(absl::DataLossError(text), 7);
    EXPECT_GE(failure.message().size(), 4094u);
    EXPECT_EQ((failure.message().size() - before) % 3, 0u);
    v1::Failure parsed;
    EXPECT_TRUE(parsed.ParseFromString(failure.SerializeAsString())) << before;
  }
}

// A group counts its ranks by itself; the coordinator knows those of the view.
TEST(FailureReport, ARankThatCannotBeReachedIsNamedByItsPlaceInTheView) {
  const auto told = [](const std::string& group, int peer) {
    const absl::Status status =
        collective::WithUnreachablePeer(absl::UnavailableError("receiving: timed out"), {group, peer});
    v1::Failure failure = FailureOf(status, 7);
    NameUnreachable(status, parallel::Mesh::OfOneNode(/*rank=*/2, /*world_size=*/6, /*tensor=*/2), failure);
    return failure;
  };
  EXPECT_EQ(told("data", 2).unreachable_rank(), 4);  // ranks 0, 2, 4
  EXPECT_EQ(told("tensor", 1).unreachable_rank(), 3);
  EXPECT_EQ(told("data", 0).unreachable_rank(), 0);
  EXPECT_TRUE(told("data", 0).has_unreachable_rank());
  EXPECT_FALSE(told("data", 3).has_unreachable_rank());
  EXPECT_FALSE(told("other", 0).has_unreachable_rank());
  v1::Failure failure;
  NameUnreachable(absl::UnavailableError("reset"), parallel::Mesh::OfOneNode(0, 2), failure);
  EXPECT_FALSE(failure.has_unreachable_rank());
}

}  // namespace
}  // namespace zerofleet::trainer
