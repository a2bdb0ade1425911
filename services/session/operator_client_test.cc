// Calls against a real server on loopback.
#include "services/session/operator_client.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/session/test_coordinator.h"

namespace zerofleet::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OperatorClient, TellsStatusAndStops) {
  TestCoordinator coordinator(NoSession);
  const auto client = OperatorClient::Create(coordinator.address());
  ASSERT_TRUE(client.ok());
  const auto status = (*client)->GetStatus(kPatienceSeconds);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->phase(), "training");
  EXPECT_EQ(status->step(), 42);
  EXPECT_TRUE((*client)->Stop("maintenance", kPatienceSeconds).ok());
  const absl::Status refused = (*client)->Stop("", kPatienceSeconds);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a stop needs a reason"));
}

TEST(OperatorClient, WatchesUntilTheRunHasEnded) {
  TestCoordinator coordinator(NoSession);
  const auto client = OperatorClient::Create(coordinator.address());
  std::vector<int64_t> steps;
  const absl::Status end = (*client)->Watch([&](const v1::Event& event) { steps.push_back(event.step().step()); });
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_THAT(steps, ElementsAre(1, 2));
}

TEST(OperatorClient, AWatchAfterABrokenOneGoesOnWhereThatEnded) {
  TestCoordinator coordinator(NoSession);
  const auto client = OperatorClient::Create(coordinator.address());
  std::vector<int64_t> steps;
  const auto add = [&](const v1::Event& event) { steps.push_back(event.step().step()); };
  coordinator.watch_breaks = true;
  EXPECT_EQ((*client)->Watch(add).code(), absl::StatusCode::kUnavailable);
  coordinator.watch_breaks = false;
  coordinator.steps = 4;
  EXPECT_TRUE((*client)->Watch(add).ok());
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4));
}

TEST(OperatorClient, AWatchCanBeCancelledFromItsCallback) {
  TestCoordinator coordinator(NoSession);
  coordinator.watch_stays_open = true;
  const auto client = OperatorClient::Create(coordinator.address());
  const absl::Status end = (*client)->Watch([&](const v1::Event&) { (*client)->CancelWatch(); });
  EXPECT_EQ(end.code(), absl::StatusCode::kCancelled);
}

TEST(OperatorClient, ACancellationBeforeTheWatchEndsItAtOnce) {
  TestCoordinator coordinator(NoSession);
  coordinator.watch_stays_open = true;
  const auto client = OperatorClient::Create(coordinator.address());
  (*client)->CancelWatch();
  EXPECT_EQ((*client)->Watch([](const v1::Event&) {}).code(), absl::StatusCode::kCancelled);
}

TEST(OperatorClient, ALostCoordinatorIsUnavailableAndNamed) {
  TestCoordinator coordinator(NoSession);
  const std::string address = coordinator.address();
  const auto client = OperatorClient::Create(address);
  ASSERT_TRUE((*client)->GetStatus(kPatienceSeconds).ok());
  coordinator.Kill();
  EXPECT_EQ((*client)->Watch([](const v1::Event&) {}).code(), absl::StatusCode::kUnavailable);
  const absl::Status status = (*client)->GetStatus(0.2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(address));
}

TEST(OperatorClient, MalformedAddressesAreUsageErrors) {
  EXPECT_EQ(OperatorClient::Create("node-1").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zerofleet::services
