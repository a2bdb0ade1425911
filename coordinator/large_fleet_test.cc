// The bytes and the work per member do not grow with the size of the fleet.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr int kRanksPerNode = 8;

std::atomic<int64_t> allocations = 0;  // this program's allocations

class LargeFleet {
 public:
  explicit LargeFleet(int members) : coordinator_(Parameters(members), 0) {
    for (int i = 1; i <= members; ++i) Join(i);
    for (int i = 1; i <= members; ++i) Say(i, "ready { config_digest: 'C' transport_address: 'an address' }");
    for (int i = 1; i <= members; ++i) Say(i, "entered {}");
    for (int i = 1; i <= members; ++i) Say(i, "load_result { ok: true }");
  }

  void Join(int id) {
    v1::WorkerMessage message;
    message.mutable_hello()->set_host(absl::StrFormat("node-%05d", id / kRanksPerNode));
    message.mutable_hello()->set_pid(id);
    message.mutable_hello()->set_service_address("a service address");
    Feed(MessageReceived{static_cast<MemberId>(id), message});
  }

  void Say(int id, const std::string& text) {
    MessageReceived received{static_cast<MemberId>(id), {}};
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &received.message)) << text;
    received.message.set_generation(fleet().generation);
    Feed(received);
  }

  void Feed(const CoordinatorEvent& event) {
    for (Output& output : coordinator_.Step(event, now_)) outputs_.push_back(std::move(output));
  }
  void Pass(double seconds) { now_ += seconds; }
  const Fleet& fleet() const { return coordinator_.fleet(); }

  // The total bytes and the number of messages since the last call that `wanted` accepts.
  template <typename Wanted>
  std::pair<size_t, size_t> Sent(Wanted wanted) const {
    std::pair<size_t, size_t> sent;
    for (const Output& output : outputs_) {
      const auto* send = std::get_if<SendTo>(&output.action);
      if (send == nullptr || !wanted(*send->message)) continue;
      sent.first += send->message->ByteSizeLong();
      ++sent.second;
    }
    return sent;
  }
  std::vector<Output>& outputs() { return outputs_; }

 private:
  static FleetParameters Parameters(int members) {
    FleetParameters parameters;
    parameters.units = {{"w", 0, 1 << 20}};
    parameters.elements = 1 << 20;
    parameters.config.mutable_parallel()->set_workers(members);
    parameters.config.mutable_parallel()->set_tensor(1);
    parameters.config.set_steps(100);
    parameters.config.mutable_restart()->set_heartbeat_timeout_seconds(2);
    parameters.config.mutable_restart()->set_form_timeout_seconds(300);
    parameters.config.mutable_restart()->set_load_timeout_seconds(300);
    parameters.config.mutable_restart()->set_max_per_rank(10);
    return parameters;
  }

  double now_ = 1;
  Coordinator coordinator_;
  std::vector<Output> outputs_;
};

const auto kAnything = [](const v1::CoordinatorMessage&) { return true; };
const auto kAssignments = [](const v1::CoordinatorMessage& message) { return message.has_assignment(); };

TEST(LargeFleetTest, AMemberIsToldAsMuchInALargerView) {
  LargeFleet small(200), large(2000);
  ASSERT_EQ(large.fleet().phase, Phase::kTraining);
  const auto [small_bytes, small_count] = small.Sent(kAssignments);
  const auto [large_bytes, large_count] = large.Sent(kAssignments);
  EXPECT_EQ(small_count, 200u);
  EXPECT_EQ(large_count, 2000u);
  EXPECT_LT(large_bytes / large_count, small_bytes / small_count + 16);  // rank numbers have more digits
  const auto [bytes, count] = large.Sent(kAnything);
  EXPECT_EQ(count, 4u * 2000);  // Welcome, Assignment, Load, Start
  EXPECT_LT(bytes / 2000, 400u);
}

TEST(LargeFleetTest, ALossIsToldInAFewBytes) {
  LargeFleet fleet(1000);
  for (int id = 1; id <= 999; ++id) {
    fleet.Say(id, "heartbeat { step: 0 progress { group: 'data' sequence: 5 completed: 4 operation: 'all_gather' } }");
  }
  fleet.outputs().clear();
  fleet.Feed(SessionClosed{1000, "stream reset"});
  EXPECT_EQ(fleet.fleet().phase, Phase::kRecovering);
  const auto [bytes, count] = fleet.Sent(kAnything);
  EXPECT_EQ(count, 1000u);  // Regroup for all but one, which is refused
  EXPECT_LT(bytes / count, 300u);
  for (const Output& output : fleet.outputs()) {
    const auto* send = std::get_if<SendTo>(&output.action);
    if (send == nullptr || !send->message->has_regroup()) continue;
    EXPECT_THAT(send->message->regroup().reason(), HasSubstr("ranks 0, 1, 2, 3, 4, 5, 6, 7 and 991 more wait in it"));
    break;
  }
}

TEST(LargeFleetTest, ManyLossesAtOnceAreOneLine) {
  LargeFleet fleet(200);
  for (int id = 1; id <= 200; ++id) fleet.Say(id, "heartbeat {}");
  for (int quiet = 0; quiet < 30; ++quiet) {
    fleet.Pass(0.1);
    for (int id = 101; id <= 200; ++id) fleet.Say(id, "heartbeat {}");
    fleet.outputs().clear();
    fleet.Feed(Tick());
    if (fleet.fleet().phase == Phase::kRecovering) break;
  }
  ASSERT_EQ(fleet.fleet().phase, Phase::kRecovering);
  EXPECT_EQ(fleet.fleet().members.size(), 100u);
  EXPECT_EQ(fleet.fleet().forming.vacant.size(), 100u);
  EXPECT_THAT(fleet.fleet().recovering.current->cause, HasSubstr(", and 92 more at step 0"));
  EXPECT_LT(fleet.fleet().recovering.current->cause.size(), 400u);
}

// The work for N sessions that end one after another is proportional to N: a rack that loses power is many losses.
TEST(LargeFleetTest, ALossTakesNoLongerInALargerFleet) {
  const auto allocations_of_losses = [](int members) {
    LargeFleet fleet(members);
    const auto end = [&fleet](int id) {
      fleet.Feed(SessionClosed{static_cast<MemberId>(id), "stream reset"});
      fleet.outputs().clear();
    };
    end(members);  // the first loss is announced to the whole view
    const int64_t before = allocations;
    for (int id = members - 1; id > members / 2; --id) end(id);
    EXPECT_EQ(fleet.fleet().members.size(), static_cast<size_t>(members) / 2);
    EXPECT_EQ(fleet.fleet().forming.vacant.size(), static_cast<size_t>(members) / 2);
    EXPECT_EQ(fleet.fleet().recovering.losses.size(), static_cast<size_t>(members) / 2);
    return static_cast<double>(allocations - before) / (members / 2 - 1);
  };
  const double in_small = allocations_of_losses(100), in_large = allocations_of_losses(2000);
  EXPECT_LT(in_large, 1.1 * in_small);
}

// The records of all ranks together are bounded, and each rank's newest entries are kept.
TEST(LargeFleetTest, FlightRecordsHaveABound) {
  constexpr int kMembers = 300, kEntries = 256;
  LargeFleet fleet(kMembers);
  fleet.Feed(SessionClosed{kMembers, "stream reset"});
  std::string ready = "ready { config_digest: 'C' flight { ";
  for (int i = 1; i <= kEntries; ++i) absl::StrAppend(&ready, "entries { sequence: ", i, " } ");
  absl::StrAppend(&ready, "} }");
  for (int id = kMembers - 1; id >= 1; --id) fleet.Say(id, ready);
  const v1::Flight& flight = fleet.fleet().recovering.flight;
  ASSERT_EQ(flight.ranks_size(), kMembers);
  for (int rank = 0; rank < kMembers; ++rank) ASSERT_EQ(flight.ranks(rank).rank(), rank);
  const v1::FlightRecord& first = flight.ranks(0);
  EXPECT_EQ(first.entries_size(), 218);
  EXPECT_EQ(first.entries(0).sequence(), 39u);
  EXPECT_EQ(first.entries(217).sequence(), 256u);
}

}  // namespace
}  // namespace zerofleet::coordinator

// Both, since either is given back by the delete below.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++zerofleet::coordinator::allocations;
  return std::malloc(bytes);
}
void* operator new(size_t bytes) {
  void* const memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
