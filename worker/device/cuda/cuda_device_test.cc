// The device and its streams on the emulated runtime (emulation/): how it describes itself, memory that runs out,
// copies, events, failures that stick, and machines that have no usable GPU.
#include "worker/device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/datasheet.h"
#include "worker/device/cuda/emulation/machine.h"
#include "worker/device/cuda/emulation/streams.h"
#include "worker/device/cuda/workspace.h"

namespace zerofleet::device::cuda {
namespace {

class CudaDeviceTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(emulation::DeviceBytesHeld(), 0);
    emulation::SetMachine({});
  }
  static std::string WhyNot(emulation::Machine machine) {
    emulation::SetMachine(std::move(machine));
    const auto device = CudaDevice::Create(0);
    EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(CheckCudaDevice(), device.status());
    return std::string(device.status().message());
  }
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  EXPECT_TRUE(CheckCudaDevice().ok());
  const auto first = CudaDevice::Create(0).value(), second = CudaDevice::Create(1).value();
  const auto third = CudaDevice::Create(2).value();
  EXPECT_EQ(first->kind(), "cuda");
  EXPECT_EQ(first->unique_id(), "GPU-e0e1e2e3-e4e5-e6e7-e8e9-eaebecedee00");
  EXPECT_EQ(first->description(), "Emulated H100, sm_90, " + first->unique_id() + ", attention: cudnn");
  EXPECT_NE(first->unique_id(), second->unique_id());
  EXPECT_EQ(first->unique_id(), third->unique_id());  // two GPUs: rank 2 shares the first
  EXPECT_FALSE(first->host_addressable());
  EXPECT_EQ(first->datasheet_flops(DType::kBF16), 989.4e12);
}

TEST_F(CudaDeviceTest, NamesWhatAMachineLacks) {
  EXPECT_EQ(WhyNot({.driver_version = 0}),
            "device cuda: no CUDA driver on this machine (cudaErrorInsufficientDriver); use cpu or auto");
  EXPECT_EQ(
      WhyNot({.driver_version = 12040}),
      "device cuda: the driver knows CUDA 12.4 and this build needs 13.0 (cudaErrorInsufficientDriver); update the "
      "driver, or use cpu or auto");
  EXPECT_EQ(WhyNot({.gpus = 0}), "device cuda: this machine shows no NVIDIA GPU (cudaErrorNoDevice); use cpu or auto");
  EXPECT_EQ(WhyNot({.name = "Tesla V100", .major = 7, .minor = 0}),
            "device cuda: Tesla V100 is sm_70 and this build has code for sm_80 and newer; use cpu or auto");
}

// A machine without a usable GPU trains on the CPU where `auto` is asked for; one whose GPU is broken says so.
TEST_F(CudaDeviceTest, AutoDoesNotHideABrokenGpu) {
  for (const emulation::Machine& without : {emulation::Machine{.driver_version = 0},
                                            {.driver_version = 12040},
                                            {.fault = cudaErrorStubLibrary},
                                            {.gpus = 0}}) {
    emulation::SetMachine(without);
    EXPECT_EQ(ResolveDeviceKind("auto").value(), "cpu");
  }
  emulation::SetMachine({.fault = cudaErrorSystemNotReady});
  const absl::Status status = ResolveDeviceKind("auto").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              ::testing::AllOf(::testing::StartsWith("device cuda: "), ::testing::HasSubstr("cudaErrorSystemNotReady"),
                               ::testing::EndsWith("; choose cpu to do without the GPU")));
}

TEST_F(CudaDeviceTest, ReservesZeroedMemoryUntilThereIsNoMore) {
  constexpr int64_t kMiB = int64_t{1} << 20, kWorkspace = kLibraryBytes + kPartialBytes;
  emulation::SetMachine({.bytes_each = kWorkspace + 48 * kMiB});
  const auto device = CudaDevice::Create(0).value();
  EXPECT_EQ(device->memory()->total_bytes, kWorkspace + 48 * kMiB);
  EXPECT_EQ(device->memory()->workspace_bytes, kWorkspace);
  EXPECT_EQ(device->memory()->used_bytes, kWorkspace);
  {
    const auto memory = device->Reserve(32 * kMiB).value();
    EXPECT_EQ(device->memory()->used_bytes, kWorkspace + 32 * kMiB);
    EXPECT_EQ(memory->bytes(), 32 * kMiB);
    for (int64_t at = 0; at < memory->bytes(); at += 256) ASSERT_EQ(memory->data()[at], std::byte{0});
    const absl::Status more = device->Reserve(20 * kMiB).status();
    EXPECT_EQ(more.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(more.message(), "the cuda device cannot reserve 20.0 MiB: 16.0 MiB of its " +
                                  HumanBytes(device->memory()->total_bytes) + " are free");
  }
  EXPECT_TRUE(device->Reserve(32 * kMiB).ok());
  EXPECT_EQ(device->Reserve(0).value()->data(), nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // no error is left for the next launch to report
}

// Not even the workspace fits; what was allocated before the failure is released (TearDown checks).
TEST_F(CudaDeviceTest, AFullGpuIsNoDevice) {
  emulation::SetMachine({.bytes_each = kLibraryBytes + 1});
  const absl::Status status = CudaDevice::Create(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "cudaMalloc of the ops' workspace: out of memory (cudaErrorMemoryAllocation)");
}

TEST_F(CudaDeviceTest, CopiesBetweenAllKindsOfMemory) {
  const auto device = CudaDevice::Create(0).value();
  const auto stream = device->CreateStream().value();
  const auto on_device = device->Reserve(1000).value(), there = device->Reserve(1000).value();
  const auto pinned = device->ReserveHost(1000).value();
  EXPECT_EQ(pinned->data()[999], std::byte{0});
  std::vector<char> from(1000, 'x'), to(1000);
  device->Copy(*stream, on_device->data(), from.data(), 1000);
  device->Copy(*stream, there->data(), on_device->data(), 1000);
  device->Copy(*stream, pinned->data(), there->data(), 1000);
  device->Copy(*stream, to.data(), pinned->data(), 1000);
  device->Copy(*stream, nullptr, nullptr, 0);
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(to, from);
}

TEST_F(CudaDeviceTest, TheFirstFailureSticksToItsStream) {
  const auto device = CudaDevice::Create(0).value();
  const auto stream = device->CreateStream().value();
  char on_stack[8] = {};
  device->ops().Zero(*stream, on_stack, 8);  // no GPU can access it
  static_cast<CudaStream&>(*stream).Keep(absl::AbortedError("later"));
  const absl::Status status = stream->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "Zero: invalid argument (cudaErrorInvalidValue)");
  EXPECT_TRUE(stream->Synchronize().ok());
}

TEST_F(CudaDeviceTest, EventsOutliveTheirStreamAndAreUsedAgain) {
  const auto device = CudaDevice::Create(1).value();
  auto stream = device->CreateStream().value();
  const auto other = device->CreateStream().value();
  const auto first = stream->RecordTime(), second = stream->RecordTime();
  other->Wait(*first);
  EXPECT_GE(second->SecondsSince(*first), 0);
  const cudaEvent_t handle = static_cast<const CudaEvent&>(*first).handle();
  EXPECT_NE(handle, nullptr);
  auto third = stream->Record();
  const cudaEvent_t third_handle = static_cast<const CudaEvent&>(*third).handle();
  std::thread([event = std::move(third)] { EXPECT_TRUE(event->Reached().value()); }).join();
  const auto fourth = stream->Record();
  EXPECT_EQ(static_cast<const CudaEvent&>(*fourth).handle(), third_handle);
  EXPECT_TRUE(stream->Synchronize().ok());
  stream.reset();
  EXPECT_TRUE(first->Reached().value());
  EXPECT_TRUE(first->Wait().ok());
  EXPECT_TRUE(other->Synchronize().ok());
}

// An event that only orders streams is the cheapest that CUDA has. One that was given back serves its own use again.
TEST_F(CudaDeviceTest, EventsHaveATimeAndWakeTheHostOnlyWhereAsked) {
  const auto device = CudaDevice::Create(0).value();
  const auto stream = device->CreateStream().value();
  const auto flags = [](const std::shared_ptr<Event>& event) {
    return emulation::EventFlags(static_cast<const CudaEvent&>(*event).handle());
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(flags(stream->Record()), cudaEventDisableTiming);
    EXPECT_EQ(flags(stream->RecordToWait()), cudaEventDisableTiming | cudaEventBlockingSync);
    EXPECT_EQ(flags(stream->RecordTime()), cudaEventBlockingSync);
  }
}

using CudaDeviceDeathTest = CudaDeviceTest;

TEST_F(CudaDeviceDeathTest, AnEventForOrderHasNoTime) {
  const auto device = CudaDevice::Create(0).value();
  const auto stream = device->CreateStream().value();
  const auto order = stream->Record(), time = stream->RecordTime();
  EXPECT_DEATH(order->SecondsSince(*time), "kTime");
  EXPECT_DEATH(time->SecondsSince(*order), "kTime");
}

// Each thread starts with GPU 0 current; a stream of another GPU must not depend on the thread that created it.
TEST_F(CudaDeviceTest, AnyThreadMayCallIn) {
  const auto first = CudaDevice::Create(0).value(), second = CudaDevice::Create(1).value();
  const auto stream = second->CreateStream().value();
  const auto memory = second->Reserve(4000).value();
  std::thread([&] {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    second->ops().Fill(*stream, 1000, 1.5f, reinterpret_cast<float*>(memory->data()));
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    const auto event = stream->Record();
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_TRUE(event->Wait().ok());
    EXPECT_TRUE(stream->Synchronize().ok());
  }).join();
  std::vector<float> values(1000);
  second->Copy(*stream, values.data(), memory->data(), 4000);
  EXPECT_EQ(values, std::vector<float>(1000, 1.5f));
}

TEST(DatasheetTest, KnowsTheVariants) {
  EXPECT_EQ(DatasheetFlops("NVIDIA H200", DType::kBF16), 989.4e12);
  EXPECT_EQ(DatasheetFlops("NVIDIA H200 NVL", DType::kBF16), 835.5e12);
  EXPECT_EQ(DatasheetFlops("NVIDIA GH200 480GB", DType::kF16), 989.4e12);
  EXPECT_EQ(DatasheetFlops("NVIDIA H100 80GB HBM3", DType::kF16), 989.4e12);
  EXPECT_EQ(DatasheetFlops("NVIDIA H100 PCIe", DType::kBF16), 756.5e12);
  EXPECT_EQ(DatasheetFlops("NVIDIA H100 NVL", DType::kF32), 60e12);
  EXPECT_EQ(DatasheetFlops("NVIDIA A100-SXM4-80GB", DType::kF32), 19.5e12);
  EXPECT_EQ(DatasheetFlops("NVIDIA A300", DType::kBF16), 0);
  EXPECT_EQ(DatasheetFlops("NVIDIA GeForce RTX 4090", DType::kBF16), 0);
}

}  // namespace
}  // namespace zerofleet::device::cuda
