// Tags and closing, on two transports within this process.
#include "worker/collective/ucx_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/collective/conformance.h"
#include "worker/collective/watchdog_testing.h"

namespace zerofleet::collective {
namespace {

using Pair = std::array<std::unique_ptr<UcxTransport>, 2>;

// By rank: the lines about the peers that it refused.
using Refused = std::array<std::vector<std::string>, 2>;

// Two transports that have joined one group, each with its own generation and its own key.
Pair Joined(const std::array<uint64_t, 2>& generations, const std::array<std::string, 2>& keys = {"key", "key"},
            Refused* refused = nullptr) {
  Pair pair;
  std::vector<std::string> addresses;
  for (auto& one : pair) {
    one = UcxTransport::Create().value();
    addresses.push_back(one->address());
  }
  for (int rank = 0; rank < 2; rank++) {
    PeerTrust trust{.key = keys[rank], .refused = [refused, rank](const std::string& line) {
                      if (refused != nullptr) (*refused)[rank].push_back(line);
                    }};
    EXPECT_EQ(pair[rank]->Join(addresses, {"data", rank, generations[rank], std::move(trust)}), absl::OkStatus());
  }
  return pair;
}

absl::Status NoInterrupt() { return absl::OkStatus(); }

// Called on both connected ranks: each sends a number made of `number` and its rank, and checks what it receives.
void Exchange(UcxTransport& transport, int rank, int number) {
  const int sent = 10 * number + rank;
  int received = -1;
  std::vector<UcxTransport::Request> requests = {transport.Send(1 - rank, &sent, sizeof(sent)).value(),
                                                 transport.Receive(1 - rank, &received, sizeof(received)).value()};
  EXPECT_EQ(transport.Wait(requests, NoInterrupt), absl::OkStatus());
  EXPECT_EQ(received, 10 * number + 1 - rank);
}

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const auto kNoProgress = [] { return std::string("two transports in ucx_transport_test"); };

TEST(UcxTransportTest, RanksOfOneGenerationConnect) {
  const Watchdog watchdog(kNoProgress);
  Refused refused;
  Pair pair = Joined({3, 3}, {"key", "key"}, &refused);
  OnEveryRank(2, [&](int rank) {
    EXPECT_EQ(pair[rank]->Connect(NoInterrupt), absl::OkStatus());
    Exchange(*pair[rank], rank, 5);
  });
  EXPECT_THAT(refused, Each(IsEmpty()));
}

// Connects, or gives up as soon as `enough` returns true.
absl::Status ConnectUntil(UcxTransport& transport, const std::function<bool()>& enough) {
  return transport.Connect([&] { return enough() ? absl::DeadlineExceededError("enough") : absl::OkStatus(); });
}

// The liar knows the address, the generation and the rank that it claims to be, but not the key.
TEST(UcxTransportTest, AProcessWithoutTheKeyIsRefusedWhicheverRankItClaimsToBe) {
  const Watchdog watchdog(kNoProgress);
  for (const int liar : {0, 1}) {
    Refused refused;
    const int honest = 1 - liar;
    std::array<std::string, 2> keys = {"key", "key"};
    keys[liar] = "guess";
    Pair pair = Joined({3, 3}, keys, &refused);
    std::atomic<bool> done = false;
    OnEveryRank(2, [&](int rank) {
      const bool looks = rank == 0;  // the higher one calls, so that the lower one is the first that can refuse
      EXPECT_EQ(ConnectUntil(*pair[rank], [&] { return looks && !refused[0].empty() ? (done = true) : done.load(); }),
                absl::DeadlineExceededError("enough"));
      EXPECT_FALSE(pair[rank]->is_connected());
    });
    EXPECT_THAT(refused[0], ElementsAre(HasSubstr("says it is rank 1 of group data in generation 3"))) << honest;
  }
}

// A process that claims to be rank 1 comes first; rank 0 refuses it and continues to wait for the real rank 1.
TEST(UcxTransportTest, TheRankItselfConnectsAfterALiarWasRefused) {
  const Watchdog watchdog(kNoProgress);
  std::array<std::unique_ptr<UcxTransport>, 3> made;  // rank 0, rank 1, the liar
  for (auto& one : made) one = UcxTransport::Create().value();
  std::vector<std::string> lines;
  std::atomic<bool> refused = false;
  const PeerTrust watched{.key = "key", .refused = [&](const std::string& line) {
                            lines.push_back(line);
                            refused = true;
                          }};
  const std::vector<std::string> addresses = {made[0]->address(), made[1]->address()};
  ASSERT_EQ(made[0]->Join(addresses, {"data", 0, 3, watched}), absl::OkStatus());
  ASSERT_EQ(made[1]->Join(addresses, {"data", 1, 3, {.key = "key"}}), absl::OkStatus());
  ASSERT_EQ(made[2]->Join({made[0]->address(), made[2]->address()}, {"data", 1, 3, {.key = "guess"}}),
            absl::OkStatus());
  OnEveryRank(3, [&](int rank) {
    if (rank == 2) {
      EXPECT_FALSE(ConnectUntil(*made[2], [&] { return refused.load(); }).ok());
      return;
    }
    while (rank == 1 && !refused) std::this_thread::yield();
    EXPECT_EQ(made[rank]->Connect(NoInterrupt), absl::OkStatus());
    Exchange(*made[rank], rank, 5);
  });
  EXPECT_THAT(lines, SizeIs(1));
}

// A rank left over from an older generation reaches the same address; what it sends matches nothing.
TEST(UcxTransportTest, RanksOfDifferentGenerationsExchangeNothing) {
  const Watchdog watchdog(kNoProgress);
  Refused refused;
  Pair pair = Joined({1, 2}, {"key", "key"}, &refused);
  // Polls of the interrupt. Ranks of one generation connect within a few; a rank that hears nothing sleeps after some
  // 20.
  constexpr int kPolls = 60;
  std::atomic<int> polls[2] = {0, 0};
  OnEveryRank(2, [&](int rank) {
    const auto interrupt = [&, rank] {
      polls[rank]++;
      return polls[0] < kPolls || polls[1] < kPolls ? absl::OkStatus() : absl::DeadlineExceededError("enough");
    };
    EXPECT_EQ(pair[rank]->Connect(interrupt), absl::DeadlineExceededError("enough")) << rank;
  });
  EXPECT_THAT(refused, Each(IsEmpty())) << "it is no liar, only late";
}

}  // namespace
}  // namespace zerofleet::collective
