// Collectives on the memory of a GPU, on any machine with at least one; skipped elsewhere, with the reason.
//
// NCCL allows one rank per GPU, which has no peers to exchange data with: its calls are tested in a group of one.
// Groups of several ranks share the GPU through staging, as two workers on one card do.
#include <gtest/gtest.h>

#include <cstring>

#include "worker/collective/address.h"
#include "worker/collective/conformance.h"
#include "worker/collective/factory.h"
#include "worker/collective/in_process.h"
#include "worker/collective/nccl.h"

namespace zerofleet::collective {
namespace {

class DeviceMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    auto device = device::CreateDevice({.kind = "cuda"});
    if (!device.ok()) GTEST_SKIP() << device.status().message();
    device_ = *std::move(device);
  }

  // Runs a reduce-scatter to another type and an all-reduce on device memory, ordered by events alone, and expects the
  // bits of the in-process backend.
  void RunOn(Group& group) {
    constexpr int64_t kCount = 3'000'001;  // several chunks, uneven
    const int size = static_cast<int>(group.size());
    Group expected = CreateInProcessGroup("data", size);
    OnEveryRank(size, [&](int rank) {
      std::vector<float> values(kCount);
      for (int64_t i = 0; i < kCount; i++) values[i] = 1.0f / static_cast<float>(3 + i * (rank + 1));
      const Range mine = ShardRange(kCount, size, rank);
      std::vector<device::BF16> shard(mine.size());
      using enum device::DType;
      ASSERT_EQ(expected[rank]->ReduceScatter({values.data(), kF32}, {shard.data(), kBF16}, kCount, "u").Wait(),
                absl::OkStatus());
      std::vector<float> sum = values, got(kCount);
      ASSERT_EQ(expected[rank]->AllReduce({sum.data(), kF32}, kCount, "u").Wait(), absl::OkStatus());

      const auto stream = device_->CreateStream().value();
      const auto full = device_->Reserve(kCount * 4).value(), reduced = device_->Reserve(mine.size() * 2).value();
      device_->Copy(*stream, full->data(), values.data(), kCount * 4);
      Communicator& communicator = *group[rank];
      const auto scattered =
          communicator.ReduceScatter({full->data(), kF32}, {reduced->data(), kBF16}, kCount, "u", stream->Record());
      const auto all = communicator.AllReduce({full->data(), kF32}, kCount, "u");
      ASSERT_EQ(all.MakeStreamWait(*stream), absl::OkStatus());
      std::vector<device::BF16> got_shard(mine.size());
      device_->Copy(*stream, got.data(), full->data(), kCount * 4);
      device_->Copy(*stream, got_shard.data(), reduced->data(), mine.size() * 2);
      ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
      for (const auto* one : {&scattered, &all}) ASSERT_EQ(one->Wait(), absl::OkStatus());
      EXPECT_EQ(std::memcmp(got_shard.data(), shard.data(), mine.size() * 2), 0);
      EXPECT_EQ(got, sum);
      EXPECT_GT(communicator.totals()[Operation::kAllReduce].seconds, 0);
    });
    OnEveryRank(size, [&](int rank) { group[rank].reset(); });
  }

  std::unique_ptr<device::Device> device_;
};

TEST_F(DeviceMemoryTest, NcclAlone) {
  for (bool alone : {false, true}) {
    auto endpoint = NcclEndpoint::Create(*device_, {.alone = alone}).value();
    Group group;
    group.push_back(endpoint->Join({.name = "data", .rank = 0, .addresses = {endpoint->address()}}).value());
    RunOn(group);
  }
}

TEST_F(DeviceMemoryTest, AbortEndsAConnectionToARankThatNeverComes) {
  auto endpoint = NcclEndpoint::Create(*device_).value();
  v1::CollectiveAddress elsewhere = OpenAddress(endpoint->address()).value();
  elsewhere.set_device_id("another GPU");
  const std::vector<std::string> addresses = {endpoint->address(), SealAddress(elsewhere)};
  auto communicator = endpoint->Join({.name = "data", .rank = 0, .addresses = addresses}).value();
  const auto data = device_->Reserve(4096).value();
  const auto pending = communicator->AllReduce({data->data(), device::DType::kF32}, 1024, "u");
  while (communicator->progress().sequence == 0) std::this_thread::yield();
  const double start = Clock::Real().MonotonicSeconds();
  communicator->Abort(absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(pending.Wait(), absl::UnavailableError("rank 1 is gone"));
  EXPECT_LT(Clock::Real().MonotonicSeconds() - start, 10.0);
}

TEST_F(DeviceMemoryTest, TwoRanksShareAGpuThroughStaging) {
  std::vector<std::unique_ptr<CollectiveEndpoint>> endpoints;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < 2; rank++) {
    endpoints.push_back(CreateCollectiveEndpoint("auto", *device_).value());
    addresses.push_back(endpoints.back()->address());
  }
  Group group;
  for (int rank = 0; rank < 2; rank++)
    group.push_back(endpoints[rank]->Join({.name = "data", .rank = rank, .addresses = addresses}).value());
  EXPECT_EQ(group[0]->backend(), "ucx");
  RunOn(group);
}

}  // namespace
}  // namespace zerofleet::collective
