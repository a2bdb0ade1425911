// Tags and closing, on two transports within this process.
#include "worker/collective/ucx_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "worker/collective/conformance.h"
#include "worker/collective/watchdog_testing.h"

namespace zerofleet::collective {
namespace {

using Pair = std::array<std::unique_ptr<UcxTransport>, 2>;

// Two transports that know each other, each in a generation of its own.
Pair Joined(const std::array<uint64_t, 2>& generations) {
  Pair pair;
  std::vector<std::string> addresses;
  for (auto& one : pair) {
    one = UcxTransport::Create().value();
    addresses.push_back(one->address());
  }
  for (int rank = 0; rank < 2; rank++)
    EXPECT_EQ(pair[rank]->Join(addresses, rank, generations[rank]), absl::OkStatus());
  return pair;
}

absl::Status NoInterrupt() { return absl::OkStatus(); }

const auto kNoProgress = [] { return std::string("two transports in ucx_transport_test"); };

TEST(UcxTransportTest, RanksOfOneGenerationConnect) {
  const Watchdog watchdog(kNoProgress);
  Pair pair = Joined({3, 3});
  OnEveryRank(2, [&](int rank) { EXPECT_EQ(pair[rank]->Connect(NoInterrupt), absl::OkStatus()); });
}

// A rank left over from an older generation reaches the same address; what it sends matches nothing.
TEST(UcxTransportTest, RanksOfDifferentGenerationsExchangeNothing) {
  const Watchdog watchdog(kNoProgress);
  Pair pair = Joined({1, 2});
  // In one generation they connect within a few of these; a rank that hears nothing sleeps after some 20 of them.
  constexpr int kPolls = 200;
  std::atomic<int> polls[2] = {0, 0};
  OnEveryRank(2, [&](int rank) {
    const auto interrupt = [&, rank] {
      polls[rank]++;
      return polls[0] < kPolls || polls[1] < kPolls ? absl::OkStatus() : absl::DeadlineExceededError("enough");
    };
    EXPECT_EQ(pair[rank]->Connect(interrupt), absl::DeadlineExceededError("enough")) << rank;
  });
}

}  // namespace
}  // namespace zerofleet::collective
