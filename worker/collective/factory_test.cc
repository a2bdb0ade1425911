// Which backends exist, and what is said of those that do not.
#include "worker/collective/factory.h"

#include <gtest/gtest.h>

namespace zerofleet {
namespace {

TEST(FactoryTest, MakesTheBackendsOfThisBuild) {
  EXPECT_EQ(CreateCollectiveEndpoint("auto").value()->backend(), "ucx");
  EXPECT_EQ(CreateCollectiveEndpoint("ucx").value()->backend(), "ucx");
  EXPECT_EQ(CreateCollectiveEndpoint("in_process").value()->backend(), "in_process");
}

TEST(FactoryTest, SaysWhyItCannot) {
  EXPECT_TRUE(absl::IsFailedPrecondition(CreateCollectiveEndpoint("nccl").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(CreateCollectiveEndpoint("mpi").status()));
}

TEST(FactoryTest, InProcessServesOneWorker) {
  auto endpoint = CreateCollectiveEndpoint("in_process").value();
  EXPECT_TRUE(absl::IsFailedPrecondition(endpoint->Join("data", 0, {"a", "b"}, 1).status()));
  EXPECT_EQ(endpoint->Join("data", 0, {endpoint->address()}, 1).value()->size(), 1);
}

TEST(FactoryTest, UcxRefusesAddressesThatAreNone) {
  const std::string other = CreateCollectiveEndpoint("ucx").value()->address();
  for (const std::string& bad : {std::string(), std::string("localhost:1"), other.substr(0, other.size() - 1)}) {
    auto endpoint = CreateCollectiveEndpoint("ucx").value();
    EXPECT_TRUE(absl::IsInvalidArgument(endpoint->Join("data", 0, {endpoint->address(), bad}, 1).status())) << bad;
  }
  auto endpoint = CreateCollectiveEndpoint("ucx").value();
  EXPECT_TRUE(absl::IsInvalidArgument(endpoint->Join("data", 0, {}, 1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(endpoint->Join("data", 1, {endpoint->address()}, 1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(endpoint->Join("data", 0, {other, endpoint->address()}, 1).status()));
}

}  // namespace
}  // namespace zerofleet
