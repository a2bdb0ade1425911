// Prints what one training step of a GPT-2 launches on a GPU, for tests/gpu_step_check.py: a line for each kind of
// launch, with its number and the bytes and operations of all of them together. Before them comes, if it ran, how many
// different tokens the step had.
//
//   step_launches run|skip LAYERS HIDDEN HEADS CONTEXT VOCAB SEQUENCES STAGE
//
// One rank in bf16 with AdamW, over the host version of NCCL, on the emulated GPU. `run` counts the bytes that each
// kernel touches; `skip` runs nothing, so a model of any size will do. A kernel is named by its address within the
// program.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "worker/collective/nccl.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/emulation/launch_log.h"
#include "worker/device/cuda/emulation/machine.h"
#include "worker/zero/fleet_testing.h"

extern "C" const char __executable_start;  // the linker's

namespace zerofleet::zero {
namespace {

using device::cuda::emulation::LaunchLogMode;
using device::cuda::emulation::LoggedLaunch;

struct Sum {
  int64_t launches = 0, bytes_read = 0, bytes_written = 0;
  double flops = 0;
};

void Print(const std::vector<LoggedLaunch>& launches) {
  std::map<std::tuple<std::string, const void*, std::string>, Sum> sums;
  for (const LoggedLaunch& launch : launches) {
    Sum& sum = sums[{launch.what, launch.kernel, launch.shape}];
    ++sum.launches;
    sum.flops += launch.flops;
    sum.bytes_read += launch.bytes_read;
    sum.bytes_written += launch.bytes_written;
  }
  for (const auto& [key, sum] : sums) {
    const auto& [what, kernel, shape] = key;
    const int64_t at = kernel == nullptr ? 0 : static_cast<const char*>(kernel) - &__executable_start;
    std::printf("%s\t%llx\t%s\t%lld\t%.0f\t%lld\t%lld\n", what.c_str(), static_cast<unsigned long long>(at),
                shape.c_str(), static_cast<long long>(sum.launches), sum.flops, static_cast<long long>(sum.bytes_read),
                static_cast<long long>(sum.bytes_written));
  }
}

std::vector<std::unique_ptr<collective::Communicator>> Alone(const char* name,
                                                             const std::vector<device::Device*>& devices) {
  auto endpoint = collective::NcclEndpoint::Create(*devices[0], {}, {name}).value();
  std::vector<std::unique_ptr<collective::Communicator>> group;
  group.push_back(endpoint->Join({.name = name, .rank = 0, .addresses = {endpoint->address()}}).value());
  return group;
}

// The launches of the second step: the first may have more to do.
std::vector<LoggedLaunch> SecondStep(const FleetSetup& setup, LaunchLogMode mode) {
  std::vector<LoggedLaunch> launches;
  device::cuda::emulation::StartLaunchLog(mode);
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    ZF_CHECK(rank.Launch(1).ok());
    device::cuda::emulation::TakeLaunchLog();
    ZF_CHECK(rank.Launch(2).ok());
    launches = device::cuda::emulation::TakeLaunchLog();
    if (mode == LaunchLogMode::kSkip) return;
    const model::MicroBatch batch = rank.Batch(2, 0).value();  // the emulated GPU's memory is the host's
    const std::set<int32_t> different(batch.inputs, batch.inputs + batch.sequences * batch.time);
    std::printf("%zu\n", different.size());
  });
  device::cuda::emulation::StopLaunchLog();
  return launches;
}

}  // namespace
}  // namespace zerofleet::zero

int main(int count, char** arguments) {
  using namespace zerofleet::zero;  // NOLINT: this is the program
  const std::string_view mode = count == 9 ? arguments[1] : "";
  if (mode != "run" && mode != "skip") {
    std::fprintf(stderr, "usage: step_launches run|skip LAYERS HIDDEN HEADS CONTEXT VOCAB SEQUENCES STAGE\n");
    return 2;
  }
  int64_t number[9] = {};
  for (int i = 2; i < count; ++i) number[i] = std::atoll(arguments[i]);
  // More memory than any GPU has; it is never touched where nothing runs.
  zerofleet::device::cuda::emulation::SetMachine({.bytes_each = int64_t{1} << 40});
  FleetSetup setup{.model = zerofleet::model::TestModelConfig(number[2], number[3], number[4], number[5], number[6]),
                   .stage = static_cast<int>(number[8]),
                   .dtype = zerofleet::device::DType::kBF16,
                   .global_sequences = number[7],
                   .device = "cuda"};
  setup.make_group = Alone;
  Print(SecondStep(setup, mode == "run" ? LaunchLogMode::kCount : LaunchLogMode::kSkip));
  return 0;
}
