// Which descriptions of groups are refused.
#include "worker/collective/endpoint.h"

#include <gtest/gtest.h>

namespace zerofleet::collective {
namespace {

TEST(CheckGroupTest, AcceptsAGroupWithAndWithoutTeamsAndNodes) {
  EXPECT_EQ(CheckGroup({.name = "data", .rank = 1, .addresses = {"a", "b"}}), absl::OkStatus());
  EXPECT_EQ(CheckGroup({.name = "data", .rank = 0, .addresses = {"a", "b", "c"}, .team = 2, .nodes = {5, 5, 7}}),
            absl::OkStatus());
  EXPECT_EQ(CheckGroup({.name = "data", .rank = 0, .addresses = {"a"}, .team = 8}), absl::OkStatus());
}

TEST(CheckGroupTest, SaysWhichGroupContradictsItselfAndHow) {
  const auto message = [](const CollectiveGroup& group) {
    const absl::Status status = CheckGroup(group);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(message({.name = "data"}), "collectives: group data: has no ranks");
  EXPECT_EQ(message({.name = "data", .rank = 2, .addresses = {"a", "b"}}), "collectives: group data: rank 2 of 2");
  EXPECT_EQ(message({.name = "data", .rank = -1, .addresses = {"a", "b"}}), "collectives: group data: rank -1 of 2");
  EXPECT_EQ(message({.name = "tensor", .rank = 0, .addresses = {"a", "b"}, .team = -3}),
            "collectives: group tensor: ranks per team must be >= 0, got -3");
  EXPECT_EQ(message({.name = "data", .rank = 0, .addresses = {"a", "b"}, .nodes = {0, 0, 1}}),
            "collectives: group data: the nodes of 3 ranks are given, it has 2");
}

}  // namespace
}  // namespace zerofleet::collective
