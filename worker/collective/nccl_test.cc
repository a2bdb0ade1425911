// The NCCL backend's own logic, on an emulated NCCL and emulated GPUs; the conformance suite runs it too. Built only
// with the emulation, since NCCL itself can be tested only on machines with GPUs.
#include "worker/collective/nccl.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/collective/address.h"
#include "worker/collective/conformance.h"
#include "worker/collective/emulation/nccl_control.h"
#include "worker/collective/factory.h"
#include "worker/collective/in_process.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/emulation/machine.h"
#include "worker/device/cuda/emulation/streams.h"

namespace zerofleet::collective {
namespace {

constexpr int kGpus = 16;

// A GPU without ops: host memory and the streams of the emulated CUDA runtime.
class PlainGpu : public device::Device {
 public:
  PlainGpu(int ordinal, std::string unique_id) : ordinal_(ordinal), unique_id_(std::move(unique_id)) {}

  std::string kind() const override { return "cuda"; }
  std::string description() const override { return unique_id_; }
  std::string unique_id() const override { return unique_id_; }
  absl::StatusOr<std::unique_ptr<device::Reservation>> Reserve(int64_t bytes) override {
    return memory_.Reserve(bytes);
  }
  absl::StatusOr<std::unique_ptr<device::Reservation>> ReserveHost(int64_t bytes) override {
    return memory_.Reserve(bytes);
  }
  absl::StatusOr<std::unique_ptr<device::Stream>> CreateStream() override {
    return device::cuda::CudaStream::Create(ordinal_);
  }
  void Copy(device::Stream& stream, void* to, const void* from, int64_t bytes) override {
    device::cuda::emulation::Enqueue(static_cast<device::cuda::CudaStream&>(stream).handle(),
                                     [=] { std::memmove(to, from, bytes); });
  }
  bool host_addressable() const override { return false; }
  double datasheet_flops(device::DType) const override { return 0; }
  std::optional<device::DeviceMemory> memory() const override { return std::nullopt; }
  device::Ops& ops() override { return memory_.ops(); }
  device::Device& host() override { return memory_; }

 private:
  const int ordinal_;
  const std::string unique_id_;
  device::CpuDevice memory_{1};
};

PlainGpu& Gpu(int ordinal) {
  static auto& gpus = *[] {
    device::cuda::emulation::SetMachine({.gpus = kGpus});
    auto* all = new std::vector<std::unique_ptr<PlainGpu>>;
    for (int i = 0; i < kGpus; i++) all->push_back(std::make_unique<PlainGpu>(i, absl::StrCat("GPU-", i)));
    return all;
  }();
  return *gpus[ordinal];
}

Group CreateNcclGroup(const GroupShape& shape, NcclOptions options) {
  std::vector<std::unique_ptr<NcclEndpoint>> endpoints;
  for (int rank = 0; rank < shape.size; rank++) endpoints.push_back(NcclEndpoint::Create(Gpu(rank), options).value());
  return JoinAll(shape, endpoints);
}

// Scratch so small that the suite's longest messages take several steps.
const AddConformanceBackend nccl("nccl", [](const GroupShape& shape) {
  return CreateNcclGroup(shape, {.scratch_bytes = 1 << 20});
});

TEST(NcclGroupsTest, AnEndpointJoinsEachOfItsGroups) {
  ExpectEveryGroupJoined([](int rank, const std::vector<std::string>& groups) -> std::unique_ptr<CollectiveEndpoint> {
    return NcclEndpoint::Create(Gpu(rank), {.scratch_bytes = 64 << 10}, groups).value();
  });
}

// NCCL requires operations of communicators that share a GPU in the same order on every rank. The second rank comes
// late, so the first rank's operations are still in flight.
TEST(NcclGroupsTest, OperationsOfSeveralGroupsAreIssuedAsTheyArePosted) {
  const std::vector<std::string> names = {"data", "tensor"};
  std::vector<std::unique_ptr<NcclEndpoint>> endpoints;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < 2; rank++) {
    endpoints.push_back(NcclEndpoint::Create(Gpu(rank), {.scratch_bytes = 64 << 10}, names).value());
    addresses.push_back(endpoints.back()->address());
  }
  std::vector<std::vector<std::unique_ptr<Communicator>>> groups(2);
  for (int rank = 0; rank < 2; rank++) {
    for (const std::string& name : names) {
      groups[rank].push_back(endpoints[rank]->Join({.name = name, .rank = rank, .addresses = addresses}).value());
    }
  }
  std::vector<std::vector<float>> data(2, std::vector<float>(2, 1.0f));
  const auto post = [&](int rank, int group) {
    return groups[rank][group]->AllGather({}, {data[rank].data(), device::DType::kF32}, 2, "u");
  };
  OnEveryRank(2, [&](int rank) {
    for (int group : {0, 1}) EXPECT_EQ(post(rank, group).Wait(), absl::OkStatus());  // connects the ranks
  });
  const auto stream = Gpu(0).CreateStream().value();
  const auto in_flight = [&] {
    return device::cuda::emulation::CollectivesInFlight(static_cast<device::cuda::CudaStream&>(*stream).handle());
  };
  std::vector<Communicator::Pending> pending;
  for (int group : {0, 1, 0, 1}) {
    pending.push_back(post(0, group));
    EXPECT_EQ(in_flight(), static_cast<int>(pending.size()));
  }
  for (int group : {0, 1, 0, 1}) pending.push_back(post(1, group));
  for (const Communicator::Pending& one : pending) EXPECT_EQ(one.Wait(), absl::OkStatus());
  OnEveryRank(2, [&](int rank) { groups[rank].clear(); });  // each waits for the other to leave
}

class NcclTest : public testing::Test {
 protected:
  // Every test releases what it took from NCCL, also after an abort.
  void TearDown() override { EXPECT_EQ(nccl_emulation::LiveCommunicators(), 0); }
};

struct ReducedSums {
  std::vector<std::vector<float>> sums, shards;  // by rank
  bool operator==(const ReducedSums&) const = default;
};

ReducedSums Reduce(Group& group, int64_t count) {
  const int size = static_cast<int>(group.size());
  ReducedSums outcome{std::vector<std::vector<float>>(size), std::vector<std::vector<float>>(size)};
  OnEveryRank(size, [&](int rank) {
    std::vector<float> data(count);
    for (int64_t i = 0; i < count; i++) data[i] = 1.0f / static_cast<float>(3 + i * (rank + 1));
    std::vector<float> shard(ShardRange(count, size, rank).size());
    const auto scattered =
        group[rank]->ReduceScatter({data.data(), device::DType::kF32}, {shard.data(), device::DType::kF32}, count, "u");
    ASSERT_EQ(scattered.Wait(), absl::OkStatus());
    ASSERT_EQ(group[rank]->AllReduce({data.data(), device::DType::kF32}, count, "u").Wait(), absl::OkStatus());
    outcome.sums[rank] = data;
    outcome.shards[rank] = shard;
  });
  return outcome;
}

TEST_F(NcclTest, GivesTheBitsOfTheInProcessBackend) {
  for (int size : {1, 2, 3, 4}) {
    for (int64_t count : {1, 5, 1024, 20'011}) {
      Group group = CreateNcclGroup({.size = size}, {.scratch_bytes = 16 << 10});
      Group expected = CreateInProcessGroup("data", size);
      EXPECT_EQ(group[0]->backend(), "nccl");
      EXPECT_TRUE(Reduce(group, count) == Reduce(expected, count)) << size << " ranks, " << count << " elements";
      Destroy(group);
    }
  }
}

TEST_F(NcclTest, ARankAloneCallsNcclOnlyWhenAsked) {
  for (bool alone : {false, true}) {
    auto endpoint = NcclEndpoint::Create(Gpu(0), {.alone = alone}).value();
    auto communicator = endpoint->Join({.name = "data", .rank = 0, .addresses = {endpoint->address()}}).value();
    std::vector<float> part = {1, 2, 3}, whole(3);
    ASSERT_EQ(
        communicator->AllGather({part.data(), device::DType::kF32}, {whole.data(), device::DType::kF32}, 3, "u").Wait(),
        absl::OkStatus());
    EXPECT_EQ(whole, part);
    EXPECT_EQ(nccl_emulation::LiveCommunicators(), alone ? 1 : 0);
  }
}

TEST_F(NcclTest, AbortEndsTheWaitForARankThatNeverConnects) {
  Group group = CreateNcclGroup({.size = 3}, {});
  std::vector<float> data(10);
  const auto pending = group[0]->AllReduce({data.data(), device::DType::kF32}, 10, "u");
  while (nccl_emulation::LiveCommunicators() == 0) std::this_thread::yield();
  group[0]->Abort(absl::UnavailableError("rank 2 is gone"));
  EXPECT_EQ(pending.Wait(), absl::UnavailableError("rank 2 is gone"));
  EXPECT_EQ(nccl_emulation::LiveCommunicators(), 0);
}

// A hanging driver must not delay the report that its rank is lost.
TEST_F(NcclTest, AnAbortThatDoesNotReturnIsLeftBehind) {
  Group group = CreateNcclGroup({.size = 3}, {.abort_limit_seconds = 0.01});
  std::vector<float> data(10);
  const auto pending = group[0]->AllReduce({data.data(), device::DType::kF32}, 10, "u");
  while (nccl_emulation::LiveCommunicators() == 0) std::this_thread::yield();
  nccl_emulation::Hold(nccl_emulation::Ending::kAbort, true);
  group[0]->Abort(absl::UnavailableError("rank 2 is gone"));
  EXPECT_EQ(pending.Wait(), absl::UnavailableError("rank 2 is gone"));
  EXPECT_EQ(nccl_emulation::LiveCommunicators(), 1);
  nccl_emulation::Hold(nccl_emulation::Ending::kAbort, false);
  while (nccl_emulation::LiveCommunicators() > 0) std::this_thread::yield();
}

// A view ends although NCCL does not come back from the calls that end its communicators.
TEST_F(NcclTest, AnEndingThatDoesNotReturnIsLeftBehind) {
  for (const auto call : {nccl_emulation::Ending::kFinalize, nccl_emulation::Ending::kDestroy}) {
    const bool is_first = call == nccl_emulation::Ending::kFinalize;
    Group group = CreateNcclGroup(
        {.size = 2}, {.abort_limit_seconds = 0.01, .finish_limit_seconds = is_first ? 0.01 : kNcclFinishLimitSeconds});
    Reduce(group, 100);
    nccl_emulation::Hold(call, true);
    Destroy(group);
    EXPECT_EQ(nccl_emulation::LiveCommunicators(), 2);
    nccl_emulation::Hold(call, false);
    while (nccl_emulation::LiveCommunicators() > 0) std::this_thread::yield();
  }
}

TEST_F(NcclTest, ARankWhosePeerDoesNotFinishAborts) {
  Group group = CreateNcclGroup({.size = 2}, {.finish_limit_seconds = 0.01});
  Reduce(group, 100);
  group[0].reset();
  EXPECT_EQ(nccl_emulation::LiveCommunicators(), 1);
  Destroy(group);
}

// A clock that the test moves while another thread reads it.
class SharedClock : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  double MonotonicSeconds() const override { return seconds; }
  std::atomic<double> seconds = 0;
};

TEST_F(NcclTest, ConnectingHasADeadlineThatNamesRankAndGroup) {
  SharedClock clock;
  Group group = CreateNcclGroup({.size = 3}, {.clock = &clock});
  std::vector<float> data(10);
  const auto pending = group[1]->AllReduce({data.data(), device::DType::kF32}, 10, "u");
  while (nccl_emulation::LiveCommunicators() == 0) std::this_thread::yield();
  clock.seconds = 299;
  clock.seconds = 301;
  const absl::Status status = pending.Wait();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_NE(status.message().find("group data, rank 1 of 3"), absl::string_view::npos) << status;
}

// One rank's NCCL fails: that rank returns the error, and so do the ranks that wait for it.
TEST_F(NcclTest, AFailureOfNcclIsUnavailableOnEveryRank) {
  Group group = CreateNcclGroup({.size = 3}, {});
  Reduce(group, 100);
  OnEveryRank(3, [&](int rank) {
    std::vector<float> data(10);
    if (rank == 1) nccl_emulation::SetAsyncError(1, ncclRemoteError);
    const absl::Status status = group[rank]->AllReduce({data.data(), device::DType::kF32}, 10, "u").Wait();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    const std::string place = absl::StrCat("group data, rank ", rank, " of 3");
    EXPECT_NE(status.message().find(place), absl::string_view::npos) << status;
    EXPECT_NE(status.message().find("(emulated)"), absl::string_view::npos) << status;
  });
  nccl_emulation::SetAsyncError(1, ncclSuccess);
  Destroy(group);
}

TEST_F(NcclTest, OtherFailuresAreTheProgramsOrTheUsers) {
  for (auto [result, code] : {std::pair(ncclInternalError, absl::StatusCode::kInternal),
                              std::pair(ncclUnhandledCudaError, absl::StatusCode::kInternal),
                              std::pair(ncclSystemError, absl::StatusCode::kUnavailable),
                              std::pair(ncclInvalidUsage, absl::StatusCode::kFailedPrecondition)}) {
    Group group = CreateNcclGroup({.size = 2}, {});
    nccl_emulation::SetAsyncError(0, result);
    float value = 0;
    EXPECT_EQ(group[0]->AllReduce({&value, device::DType::kF32}, 1, "u").Wait().code(), code);
    nccl_emulation::SetAsyncError(0, ncclSuccess);
    Destroy(group);
  }
}

// NCCL reports a failed allocation as any other error of CUDA.
TEST_F(NcclTest, AFullGpuIsNamed) {
  Gpu(0);
  device::cuda::emulation::SetMachine({.gpus = kGpus, .bytes_each = int64_t{100} << 20});
  Group group = CreateNcclGroup({.size = 2}, {});
  nccl_emulation::SetAsyncError(0, ncclUnhandledCudaError);
  float value = 0;
  const absl::Status status = group[0]->AllReduce({&value, device::DType::kF32}, 1, "u").Wait();
  nccl_emulation::SetAsyncError(0, ncclSuccess);
  Destroy(group);
  device::cuda::emulation::SetMachine({.gpus = kGpus});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.message().find(
                "; 100.0 MiB of the GPU's 100.0 MiB are free, and NCCL's buffers come on top of the planned "
                "memory: set memory.device_limit lower"),
            absl::string_view::npos)
      << status;
}

TEST_F(NcclTest, OrdersAComputeStreamBehindAnOperation) {
  Group group = CreateNcclGroup({.size = 2}, {});
  OnEveryRank(2, [&](int rank) {
    const std::unique_ptr<device::Stream> compute = Gpu(rank).CreateStream().value();
    std::vector<float> data(1000, 1.0f);
    const auto pending = group[rank]->AllReduce({data.data(), device::DType::kF32}, 1000, "u", compute->Record());
    EXPECT_EQ(pending.MakeStreamWait(*compute), absl::OkStatus());
    EXPECT_EQ(compute->Synchronize(), absl::OkStatus());
    EXPECT_EQ(data, std::vector<float>(1000, 2.0f));
    EXPECT_EQ(pending.Wait(), absl::OkStatus());
    EXPECT_GT(group[rank]->totals()[Operation::kAllReduce].seconds, 0);
  });
  Destroy(group);
}

TEST_F(NcclTest, RefusesTwoRanksOnOneGpu) {
  PlainGpu same(1, "GPU-0");
  auto first = NcclEndpoint::Create(Gpu(0)).value(), second = NcclEndpoint::Create(same).value();
  const absl::Status status =
      first->Join({.name = "data", .rank = 0, .addresses = {first->address(), second->address()}}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("ranks 0 and 1 share GPU GPU-0"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("set collectives to auto or ucx"), absl::string_view::npos) << status;
}

TEST_F(NcclTest, RefusesGroupsThatAreNotItsOwn) {
  auto endpoint = NcclEndpoint::Create(Gpu(0)).value(), other = NcclEndpoint::Create(Gpu(1)).value();
  const std::string mine = endpoint->address(), theirs = other->address();
  EXPECT_TRUE(absl::IsInvalidArgument(endpoint->Join({.name = "data", .rank = 0, .addresses = {}}).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(endpoint->Join({.name = "data", .rank = 2, .addresses = {mine, theirs}}).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(endpoint->Join({.name = "data", .rank = 1, .addresses = {mine, theirs}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      endpoint->Join({.name = "data", .rank = 0, .addresses = {mine, "localhost:1"}}).status()));
  EXPECT_TRUE(endpoint->Join({.name = "data", .rank = 0, .addresses = {mine, theirs}}).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(endpoint->Join({.name = "data", .rank = 0, .addresses = {mine, theirs}}).status()));
}

Group JoinAuto(const std::vector<device::Device*>& devices) {
  std::vector<std::unique_ptr<CollectiveEndpoint>> endpoints;
  for (device::Device* device : devices) endpoints.push_back(CreateCollectiveEndpoint("auto", *device).value());
  EXPECT_EQ(endpoints[0]->backend(), "auto");
  return JoinAll({}, endpoints);
}

TEST_F(NcclTest, AutoIsNcclWhereEveryRankHasAGpuAndUcxWhereTwoShareOne) {
  PlainGpu same(1, "GPU-1");
  for (auto [devices, backend] : {std::pair(std::vector<device::Device*>{&Gpu(0), &Gpu(1), &Gpu(2)}, "nccl"),
                                  std::pair(std::vector<device::Device*>{&Gpu(0), &Gpu(1), &same}, "ucx"),
                                  std::pair(std::vector<device::Device*>{&Gpu(0)}, "nccl")}) {
    Group group = JoinAuto(devices), expected = CreateInProcessGroup("data", static_cast<int>(devices.size()));
    for (const auto& communicator : group) EXPECT_EQ(communicator->backend(), backend);
    EXPECT_TRUE(Reduce(group, 1001) == Reduce(expected, 1001));
    Destroy(group);
  }
}

// The address of a worker without NCCL makes every rank choose ucx.
TEST_F(NcclTest, AutoIsUcxWhereARankHasNoNccl) {
  std::vector<std::unique_ptr<CollectiveEndpoint>> endpoints;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < 2; rank++) {
    endpoints.push_back(CreateCollectiveEndpoint("auto", Gpu(rank)).value());
    v1::CollectiveAddress address = OpenAddress(endpoints.back()->address()).value();
    if (rank == 1) (*address.mutable_groups())["data"].clear_nccl_id();
    addresses.push_back(SealAddress(address));
  }
  Group group;
  for (int rank = 0; rank < 2; rank++) {
    group.push_back(endpoints[rank]->Join({.name = "data", .rank = rank, .addresses = addresses}).value());
    EXPECT_EQ(group[rank]->backend(), "ucx");
    EXPECT_EQ(endpoints[rank]->fallback_reason(), "rank 1 has no NCCL");
  }
  Group expected = CreateInProcessGroup("data", 2);
  EXPECT_TRUE(Reduce(group, 1001) == Reduce(expected, 1001));
  Destroy(group);
}

// Whatever makes NCCL unavailable, even a missing network interface, is an error for `nccl` and a reason for `auto`.
TEST_F(NcclTest, AutoIsUcxWhereNcclRefuses) {
  nccl_emulation::SetUniqueIdResult(ncclSystemError);
  EXPECT_TRUE(absl::IsUnavailable(CreateCollectiveEndpoint("nccl", Gpu(0)).status()));
  const auto endpoint = CreateCollectiveEndpoint("auto", Gpu(0));
  nccl_emulation::SetUniqueIdResult(ncclSuccess);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_EQ((*endpoint)->Join({.name = "data", .rank = 0, .addresses = {(*endpoint)->address()}}).value()->backend(),
            "ucx");
  EXPECT_EQ((*endpoint)->fallback_reason().substr(0, 17), "ncclGetUniqueId: ");
}

// Every 2.x has the same file name, so the loader takes an old one.
TEST_F(NcclTest, AnOlderLibraryIsNamed) {
  nccl_emulation::SetVersion(22505);
  const absl::Status status = CreateCollectiveEndpoint("nccl", Gpu(0)).status();
  const auto endpoint = CreateCollectiveEndpoint("auto", Gpu(0));
  nccl_emulation::SetVersion(NCCL_VERSION_CODE);
  EXPECT_EQ(status,
            absl::FailedPreconditionError("collectives nccl: this machine's NCCL is 2.25.5 and this build needs "
                                          "2.28.0; install that, or use ucx"));
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  ASSERT_TRUE((*endpoint)->Join({.name = "data", .rank = 0, .addresses = {(*endpoint)->address()}}).ok());
  EXPECT_EQ((*endpoint)->fallback_reason(), status.message());
}

TEST_F(NcclTest, TheFactoryKeepsNcclToGpus) {
  device::CpuDevice cpu(1);
  EXPECT_EQ(CreateCollectiveEndpoint("nccl", Gpu(0)).value()->backend(), "nccl");
  EXPECT_EQ(CreateCollectiveEndpoint("auto", cpu).value()->backend(), "ucx");
  const absl::Status status = CreateCollectiveEndpoint("nccl", cpu).status();
  EXPECT_EQ(status, absl::FailedPreconditionError(
                        "collectives: nccl moves GPU memory and this worker's device is cpu; use auto or ucx"));
}

}  // namespace
}  // namespace zerofleet::collective
