// Groups that meet, work and part, and groups that lose a rank.
#include "services/session/rendezvous.h"

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class RendezvousTest : public testing::Test {
 protected:
  void Serve(int ranks) {
    server_ = *RendezvousServer::Start("127.0.0.1:0", ranks);
    address_ = absl::StrCat("127.0.0.1:", server_->port());
  }
  absl::StatusOr<std::unique_ptr<RendezvousClient>> Join(const std::string& name) {
    return RendezvousClient::Join({.server = address_, .host = name, .transport_address = name});
  }
  // Both ranks of a group of two, by rank.
  std::vector<std::unique_ptr<RendezvousClient>> JoinBoth() {
    std::unique_ptr<RendezvousClient> other;
    std::thread joining([&] { other = *Join("b"); });
    std::unique_ptr<RendezvousClient> first = *Join("a");
    joining.join();
    std::vector<std::unique_ptr<RendezvousClient>> ranks(2);
    EXPECT_EQ(first->rank() + other->rank(), 1);
    EXPECT_EQ(first->transport_addresses(), other->transport_addresses());
    for (auto* one : {&first, &other}) ranks[(*one)->rank()] = std::move(*one);
    return ranks;
  }

  std::unique_ptr<RendezvousServer> server_;
  std::string address_;
};

TEST_F(RendezvousTest, AGroupMeetsAndPartsWhenAllAreDone) {
  Serve(2);
  auto ranks = JoinBoth();
  EXPECT_THAT(ranks[0]->transport_addresses(), UnorderedElementsAre("a", "b"));
  std::atomic<int> lost = 0;
  for (auto& rank : ranks) rank->OnLost([&](const absl::Status&) { lost++; });
  std::thread first([&] { EXPECT_EQ(ranks[0]->Done(), absl::OkStatus()); });
  EXPECT_EQ(ranks[1]->Done(), absl::OkStatus());
  first.join();
  EXPECT_EQ(lost, 0);
}

TEST_F(RendezvousTest, ARankThatLeavesEarlyEndsTheGroup) {
  Serve(2);
  auto ranks = JoinBoth();
  absl::Notification lost;
  absl::Status reason;
  ranks[1]->OnLost([&](absl::Status status) {
    reason = std::move(status);
    lost.Notify();
  });
  ranks[0].reset();
  lost.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(reason));
  EXPECT_THAT(std::string(reason.message()), HasSubstr("rank 0 ("));
  EXPECT_THAT(std::string(reason.message()), HasSubstr("has left"));
  EXPECT_TRUE(absl::IsUnavailable(ranks[1]->Done()));
}

TEST_F(RendezvousTest, ACompleteGroupTakesNobodyElse) {
  Serve(1);
  const auto only = *Join("a");
  EXPECT_EQ(only->rank(), 0);
  const absl::Status status = Join("b").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its group of 1 ranks is complete"));
}

TEST_F(RendezvousTest, AWaitEndsWhenItIsCancelled) {
  Serve(2);
  RendezvousOptions options;
  options.server = address_;
  options.cancelled = [] { return true; };
  const absl::Status status = RendezvousClient::Join(options).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST_F(RendezvousTest, NobodyThereIsSaidWithTheAddress) {
  RendezvousOptions options;
  options.server = "127.0.0.1:1";
  options.connect_timeout_seconds = 0;
  const absl::Status status = RendezvousClient::Join(options).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace zerofleet::services
