// Staged collectives on a device that copies as late as possible; the conformance suite runs them too.
#include "worker/collective/staged.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "worker/collective/conformance.h"
#include "worker/collective/in_process.h"
#include "worker/collective/late_device.h"
#include "worker/collective/ucx.h"

namespace zerofleet::collective {
namespace {

LateDevice& TheDevice() {
  static LateDevice& device = *new LateDevice;
  return device;
}

Group Stage(Group inner, int64_t staging_bytes) {
  Group group;
  for (auto& communicator : inner) {
    auto staged = CreateStagedCommunicator(TheDevice(), std::move(communicator), staging_bytes);
    EXPECT_TRUE(staged.ok()) << staged.status();
    group.push_back(*std::move(staged));
  }
  return group;
}

// A buffer so small that the suite's longest messages take many rounds.
const AddConformanceBackend staged("staged", [](const GroupShape& shape) {
  return Stage(CreateInProcessGroup(shape.name, shape.size, shape.team, shape.nodes), 64 << 10);
});

// What a group gives for one message of each operation: by rank, the results one after another, and the totals.
struct Outcome {
  std::vector<std::vector<float>> results;
  std::vector<std::map<Operation, CollectiveTotals>> totals;
};

Outcome RunAll(Group group, int64_t count) {
  const int size = static_cast<int>(group.size());
  Outcome outcome{std::vector<std::vector<float>>(size), {}};
  outcome.totals.resize(size);
  OnEveryRank(size, [&](int rank) {
    Communicator& communicator = *group[rank];
    const int64_t mine = ShardRange(count, size, rank).size();
    std::vector<float> full(count), shard(count), reduced(count), sum(count), gathered(count);
    std::vector<device::BF16> small(count);
    std::vector<float> widened(count);
    for (int64_t i = 0; i < count; i++) full[i] = sum[i] = 1.0f / static_cast<float>(i + 2 + rank * 100);
    for (int64_t i = 0; i < count; i++) small[i] = device::ToBF16(full[i]);
    for (int64_t i = 0; i < mine; i++) shard[i] = full[i] + static_cast<float>(rank);
    using enum device::DType;
    const std::vector<Communicator::Pending> pending = {
        communicator.AllGather({shard.data(), kF32}, {gathered.data(), kF32}, count, "u"),
        communicator.ReduceScatter({full.data(), kF32}, {reduced.data(), kF32}, count, "u"),
        communicator.ReduceScatter({small.data(), kBF16}, {widened.data(), kF32}, count, "u"),
        communicator.AllReduce({sum.data(), kF32}, count, "u")};
    for (const auto& one : pending) ASSERT_EQ(one.Wait(), absl::OkStatus());
    for (const auto* one : {&gathered, &reduced, &widened, &sum}) {
      outcome.results[rank].insert(outcome.results[rank].end(), one->begin(), one->end());
    }
    outcome.totals[rank] = communicator.totals();
  });
  return outcome;
}

// Whatever the buffer's size, which need not divide anything, bits and byte counts are the same as without staging.
TEST(StagedTest, GivesTheInnerBackendsBitsAndBytes) {
  for (int size : {1, 2, 3, 5}) {
    for (int64_t count : {0, 1, 4, 61, 1000, 1021}) {
      const Outcome expected = RunAll(CreateInProcessGroup("data", size), count);
      for (int64_t staging_bytes : {100, 1000, 1 << 20}) {
        const Outcome outcome = RunAll(Stage(CreateInProcessGroup("data", size), staging_bytes), count);
        for (int rank = 0; rank < size; rank++) {
          const std::string where = absl::StrCat(size, " ranks, ", count, " elements, ", staging_bytes, " bytes");
          EXPECT_EQ(outcome.results[rank], expected.results[rank]) << where;
          for (const auto& [operation, totals] : expected.totals[rank]) {
            const CollectiveTotals& staged_totals = outcome.totals[rank].at(operation);
            EXPECT_EQ(staged_totals.bytes, totals.bytes) << where << ", " << OperationName(operation);
            EXPECT_EQ(staged_totals.calls, totals.calls);
            EXPECT_EQ(staged_totals.gathered_bytes, totals.gathered_bytes);
          }
        }
      }
    }
  }
}

TEST(StagedTest, TouchesItsBuffersAfterTheirEvent) {
  Group group = Stage(CreateInProcessGroup("data", 2), 1 << 10);
  OnEveryRank(2, [&](int rank) {
    const std::unique_ptr<device::Stream> compute = TheDevice().CreateStream().value();
    std::vector<float> values(100, static_cast<float>(rank + 1)), data(100, 1000.0f);
    TheDevice().Copy(*compute, data.data(), values.data(), 400);  // runs when the event is polled
    const auto pending = group[rank]->AllReduce({data.data(), device::DType::kF32}, 100, "u", compute->Record());
    ASSERT_EQ(pending.MakeStreamWait(*compute), absl::OkStatus());
    EXPECT_EQ(data, std::vector<float>(100, 3.0f));
  });
}

TEST(StagedTest, SaysWhatTheHostCannotPin) {
  LateDevice small;
  small.most_host_bytes = 1 << 20;
  const auto communicator = CreateStagedCommunicator(small, std::move(CreateInProcessGroup("data", 1)[0]));
  EXPECT_TRUE(absl::IsResourceExhausted(communicator.status())) << communicator.status();
}

TEST(StagedTest, JoinsThroughTheInnerEndpoint) {
  std::vector<std::unique_ptr<StagedEndpoint>> endpoints;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < 2; rank++) {
    endpoints.push_back(std::make_unique<StagedEndpoint>(TheDevice(), UcxEndpoint::Create({"tensor"}).value()));
    EXPECT_EQ(endpoints.back()->backend(), "ucx");
    addresses.push_back(endpoints.back()->address());
  }
  EXPECT_FALSE(endpoints[0]->Join({.name = "tensor", .rank = 0, .addresses = {addresses[0], "localhost:1"}}).ok());
  OnEveryRank(2, [&](int rank) {
    auto communicator = endpoints[rank]->Join({.name = "tensor", .rank = rank, .addresses = addresses});
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    EXPECT_EQ((*communicator)->backend(), "ucx");
    EXPECT_EQ((*communicator)->group(), "tensor");
    std::vector<device::F16> data(1001, device::ToF16(static_cast<float>(rank + 1)));
    ASSERT_EQ((*communicator)->AllReduce({data.data(), device::DType::kF16}, 1001, "u").Wait(), absl::OkStatus());
    for (device::F16 value : data) ASSERT_EQ(device::ToFloat(value), 3.0f);
  });
}

}  // namespace
}  // namespace zerofleet::collective
