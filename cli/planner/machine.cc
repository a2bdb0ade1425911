// See machine.h.
#include "cli/planner/machine.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/units.h"
#include "bench/collective_benches.h"
#include "bench/device_timing.h"
#include "bench/kernel_benches.h"
#include "cli/launcher/local_fleet.h"
#include "worker/device/device.h"
#include "worker/model/foreign.h"
#include "worker/trainer/rank_plan.h"

namespace zerofleet::cli {
namespace {

constexpr double kMachineGiga = 1e9;
constexpr double kNominalFlops = 60 * kMachineGiga, kNominalBytes = 10 * kMachineGiga, kNominalPeer = 1 * kMachineGiga;
// Most of this is waiting for a rank that other work has held up.
constexpr double kNominalOperationSeconds = 400e-6;

// The products of a block and of the head at this micro-batch, as one rank of a tensor group has them.
bench::GemmWork ProductsOf(const v1::Config& config) {
  const v1::ModelConfig& model = config.model();
  const int64_t tokens = config.batch().micro_sequences() * model.context(), parts = config.parallel().tensor();
  const int64_t hidden = model.hidden(), intermediate = model.intermediate() / parts, width = hidden / parts;
  return {.layers = {{"qkv", tokens, 3 * width, hidden},
                     {"projection", tokens, hidden, width},
                     {"fc", tokens, intermediate, hidden},
                     {"fc projection", tokens, hidden, intermediate}},
          .heads = {{"head", tokens, CeilDivide(model.vocab(), parts), hidden}}};
}

// The mean FLOP/s over all products of a pass, each weighted by how often the model computes it.
double RateOf(const std::vector<bench::GemmRate>& rates, device::DType dtype, const v1::Config& config) {
  double flops = 0, seconds = 0;
  for (const bench::GemmRate& rate : rates) {
    if (rate.dtype != dtype) continue;
    const bool head = rate.layer == "head";
    const double times = head ? 3 : static_cast<double>(config.model().layers());  // the head's rate is over 3 products
    const double each = 2.0 * static_cast<double>(rate.m) * static_cast<double>(rate.n) * static_cast<double>(rate.k);
    flops += times * each;
    seconds += times * each / rate.flops_per_second;
  }
  return seconds > 0 ? flops / seconds : 0;
}

}  // namespace

int64_t UsableMemoryBytes() {
  const int64_t machine = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  // Read as a stream, since the kernel's files say that they have no bytes.
  std::ifstream group("/sys/fs/cgroup/memory.max");
  int64_t limit = 0;
  return group >> limit && limit > 0 ? std::min(machine, limit) : machine;  // "max" is no number
}

Cluster ThisMachine(const v1::Config& config) {
  const int64_t workers = config.parallel().workers(), share = UsableMemoryBytes() / workers;
  const auto limit_or = [&](const std::string& limit) { return ParseBytes(limit).value_or(share); };
  const double cores = ThreadsPerWorker(static_cast<int>(workers));
  return {.device = "CPU",
          .gpus = workers,
          .node_gpus = workers,
          // The configuration's limit is for the plan alone.
          .device_bytes = limit_or(config.memory().device_limit()) + OutsideBytes(config),
          .host_bytes = limit_or(config.memory().host_limit()) * workers,
          .shared_bytes = share,
          .outside_bytes = OutsideBytes(config),
          .efficiency = 1,
          .flops_per_second = cores * kNominalFlops,
          .memory_bytes_per_second = cores * kNominalBytes,
          .peer_bytes_per_second = kNominalPeer,
          .link_bytes_per_second = kNominalPeer,
          .host_link_bytes_per_second = cores * kNominalBytes,
          .host_memory_bytes_per_second = cores * kNominalBytes * static_cast<double>(workers),
          .nvme_bytes_per_second = kNominalPeer,
          .operation_seconds = kNominalOperationSeconds,
          .overlaps = false};
}

absl::StatusOr<Cluster> MeasureThisMachine(const v1::Config& config) {
  constexpr int kRounds = 5;
  constexpr int64_t kMemoryElements = 16 << 20, kManyBytes = 4 << 20, kFewBytes = 4 << 10;
  Cluster machine = ThisMachine(config);
  const int workers = config.parallel().workers();
  double memory = 0;
  if (workers > 1) {  // first, before this process has threads: it forks
    bench::CollectiveBenchOptions options;
    options.ranks = workers;
    options.rounds = kRounds;
    options.sizes_bytes = {kManyBytes, kFewBytes};
    ZF_ASSIGN_OR_RETURN(const std::vector<bench::CollectiveRate> rates, bench::BenchCollectives(options));
    double seconds = 0, bytes = 0, few_seconds = 0, operations = 0;
    for (const bench::CollectiveRate& rate : rates) {
      memory = rate.memory_bytes_per_second / workers;
      if (rate.bytes == kManyBytes) {
        bytes += rate.bus_bytes_per_second * rate.seconds;
        seconds += rate.seconds;
      } else {
        few_seconds += rate.seconds;
        operations += rate.operation == collective::Operation::kAllReduce ? 2 : 1;
      }
    }
    machine.peer_bytes_per_second = machine.link_bytes_per_second = bytes / seconds;
    machine.operation_seconds = few_seconds / operations;
  }
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device,
                      device::CreateDevice({.kind = "cpu", .threads = ThreadsPerWorker(workers)}));
  const device::DType dtype = trainer::ComputeType(config);
  ZF_ASSIGN_OR_RETURN(const std::vector<bench::GemmRate> rates, bench::BenchGemm(*device, ProductsOf(config), kRounds));
  machine.flops_per_second = device->ops().MeasureGemmPeak(dtype, kRounds);
  for (const bench::GemmRate& rate : rates) {
    machine.flops_per_second = std::max(machine.flops_per_second, rate.peak_flops_per_second);
  }
  machine.efficiency = RateOf(rates, dtype, config) / machine.flops_per_second;
  if (workers == 1) {
    ZF_ASSIGN_OR_RETURN(memory, bench::MemoryBytesPerSecond(*device, kMemoryElements, kRounds));
  }
  machine.memory_bytes_per_second = machine.host_link_bytes_per_second = memory;
  machine.host_memory_bytes_per_second = memory * workers;
  return machine;
}

int64_t OutsideBytes(const v1::Config& config) {
  constexpr int64_t kPython = int64_t{640} << 20;  // the interpreter and PyTorch after a step
  if (!model::IsForeign(config.model())) {
    const int threads = ThreadsPerWorker(static_cast<int>(config.parallel().workers()));
    return kCpuOutsideBytes + threads * device::PackedOperandBytes(trainer::ComputeType(config));
  }
  return kCpuOutsideBytes + kPython + config.model().foreign().saved_bytes();
}

}  // namespace zerofleet::cli
