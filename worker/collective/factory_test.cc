// Which backends exist, and the errors for those that do not.
#include "worker/collective/factory.h"

#include <gtest/gtest.h>

#include "worker/collective/late_device.h"
#include "worker/device/cpu/cpu_device.h"

namespace zerofleet::collective {
namespace {

device::CpuDevice& Cpu() {
  static device::CpuDevice& device = *new device::CpuDevice(1);
  return device;
}

absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> Create(const std::string& backend) {
  return CreateCollectiveEndpoint(backend, Cpu());
}

TEST(FactoryTest, MakesTheBackendsOfThisBuild) {
  EXPECT_EQ(Create("auto").value()->backend(), "ucx");
  EXPECT_EQ(Create("ucx").value()->backend(), "ucx");
  EXPECT_EQ(Create("in_process").value()->backend(), "in_process");
}

// The backend's name, as metrics and reports show it, and the reason where it is not the first choice.
TEST(FactoryTest, AutoSharesMemoryAmongTheRanksOfOneNode) {
  const auto backend = [](const std::string& backend, const std::vector<int>& nodes) {
    auto first = Create(backend).value(), second = Create(backend).value();
    const auto communicator =
        first->Join({.name = "data", .addresses = {first->address(), second->address()}, .nodes = nodes});
    EXPECT_EQ(first->fallback_reason(), "");
    return communicator.value()->backend();
  };
  EXPECT_EQ(backend("auto", {}), "shared_memory");
  EXPECT_EQ(backend("auto", {0, 1}), "ucx");
  EXPECT_EQ(backend("ucx", {}), "ucx");
  auto mine = Create("auto").value(), other = Create("ucx").value();
  const auto mixed = mine->Join({.name = "data", .addresses = {mine->address(), other->address()}});
  EXPECT_EQ(mixed.value()->backend(), "ucx");
  EXPECT_EQ(mine->fallback_reason(), "rank 1 shares no memory");
}

TEST(FactoryTest, SaysWhyItCannot) {
  const absl::Status nccl = Create("nccl").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(nccl)) << nccl;
  EXPECT_NE(nccl.message().find("use auto or ucx"), absl::string_view::npos) << nccl;
  EXPECT_TRUE(absl::IsInvalidArgument(Create("mpi").status()));
}

TEST(FactoryTest, InProcessServesOneWorker) {
  auto endpoint = Create("in_process").value();
  EXPECT_TRUE(
      absl::IsFailedPrecondition(endpoint->Join({.name = "data", .rank = 0, .addresses = {"a", "b"}}).status()));
  EXPECT_EQ(endpoint->Join({.name = "data", .rank = 0, .addresses = {endpoint->address()}}).value()->size(), 1);
}

TEST(FactoryTest, UcxRefusesAddressesThatAreNone) {
  const std::string other = Create("ucx").value()->address();
  for (const std::string& bad : {std::string(), std::string("localhost:1"), other.substr(0, other.size() - 1)}) {
    auto endpoint = Create("ucx").value();
    EXPECT_TRUE(absl::IsInvalidArgument(
        endpoint->Join({.name = "data", .rank = 0, .addresses = {endpoint->address(), bad}}).status()))
        << bad;
  }
  auto endpoint = Create("ucx").value();
  EXPECT_TRUE(absl::IsInvalidArgument(endpoint->Join({.name = "data", .rank = 0, .addresses = {}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      endpoint->Join({.name = "data", .rank = 1, .addresses = {endpoint->address()}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      endpoint->Join({.name = "data", .rank = 0, .addresses = {other, endpoint->address()}}).status()));
}

// Where the host cannot address the device's memory, the backends of host memory are staged. (nccl and auto need the
// emulated NCCL: nccl_test.cc.)
TEST(FactoryTest, StagesHostBackendsOnAFarDevice) {
  LateDevice far;
  for (const std::string& backend : {std::string("ucx"), std::string("in_process")}) {
    auto endpoint = CreateCollectiveEndpoint(backend, far).value();
    EXPECT_EQ(endpoint->backend(), backend);
    auto communicator = endpoint->Join({.name = "data", .rank = 0, .addresses = {endpoint->address()}}).value();
    EXPECT_EQ(communicator->backend(), backend);
    std::vector<float> full(10, 2.0f);
    std::vector<device::BF16> shard(10);
    const auto pending =
        communicator->ReduceScatter({full.data(), device::DType::kF32}, {shard.data(), device::DType::kBF16}, 10, "u");
    ASSERT_EQ(pending.Wait(), absl::OkStatus());
    EXPECT_EQ(device::ToFloat(shard[9]), 2.0f);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(CreateCollectiveEndpoint("mpi", far).status()));
}

}  // namespace
}  // namespace zerofleet::collective
