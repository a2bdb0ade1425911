// See memory_limits.h.
#include "worker/trainer/memory_limits.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/model/checkpointing.h"
#include "worker/model/spec.h"

namespace zerofleet::trainer {

bool OffloadsStates(const v1::OffloadConfig& config) {
  return config.optimizer() == "cpu" || config.optimizer() == "nvme";
}

namespace {

// Settings that take memory off the device, those that cost least speed first.
std::vector<std::string> LessOnTheDevice(const v1::Config& config) {
  const v1::ParallelConfig& parallel = config.parallel();
  std::vector<std::string> settings;
  if (parallel.zero_stage() < 3 && parallel.workers() > 1) settings.emplace_back("parallel.zero_stage: 3");
  const bool offloads = OffloadsStates(config.offload());
  if (!offloads) {
    settings.emplace_back(parallel.zero_stage() == 0 ? "offload.optimizer: cpu with parallel.zero_stage: 2"
                                                     : "offload.optimizer: cpu");
  }
  if (offloads && config.offload().fraction() < 1) {
    settings.emplace_back("offload.fraction: 1");
  }
  if (offloads && config.offload().parameters() != "cpu") {
    settings.emplace_back(parallel.zero_stage() < 3 ? "offload.parameters: cpu with parallel.zero_stage: 3"
                                                    : "offload.parameters: cpu");
  }
  const v1::ActivationConfig& activation = config.activation();
  const bool divides = parallel.tensor() > 1 && !parallel.sequence() && !activation.partition();
  if (divides && model::CheckSequences(config.model().context(), parallel.tensor()).ok()) {
    settings.emplace_back("parallel.sequence: true");
  }
  if (activation.checkpointing() == "none") settings.emplace_back("activation.checkpointing: block");
  const absl::StatusOr<model::Checkpointing> checkpointing = model::CheckpointingOf(activation, config.buffers());
  if (checkpointing.ok() && checkpointing->keeps_inputs()) {
    if (divides) settings.emplace_back("activation.partition: true");
    if (!checkpointing->offload) settings.emplace_back("activation.offload: cpu");
  }
  if (config.batch().micro_sequences() > 1) settings.emplace_back("a smaller batch.micro_sequences");
  settings.emplace_back("more parallel.workers");
  return settings;
}

std::vector<std::string> LessOnTheHost(const v1::Config& config) {
  std::vector<std::string> settings;
  if (config.checkpoint().snapshot_every_steps() > 0) settings.emplace_back("checkpoint.snapshot_every_steps: 0");
  if (config.checkpoint().snapshot() == "memory") settings.emplace_back("checkpoint.snapshot: stream");
  if (config.offload().speculative()) settings.emplace_back("offload.speculative: false");
  if (config.offload().parameters() == "cpu") settings.emplace_back("offload.parameters: none");
  if (config.offload().optimizer() == "cpu") {
    settings.emplace_back("offload.optimizer: nvme with offload.dir");
    settings.emplace_back("offload.optimizer: none");
  }
  if (config.activation().offload() == "cpu") settings.emplace_back("activation.offload: none");
  settings.emplace_back("more parallel.workers");
  return settings;
}

absl::Status CheckLimit(const char* key, const std::string& limit, const memory::MemoryPlan& plan, memory::Space space,
                        const std::vector<std::string>& settings) {
  const std::optional<int64_t> most = ParseBytes(limit);
  const int64_t needed = plan.Bytes(space);
  if (!most || needed <= *most) return absl::OkStatus();
  const memory::MemoryRow* largest = nullptr;
  for (const memory::MemoryRow& row : plan.rows) {
    if (row.space == space && (largest == nullptr || row.bytes > largest->bytes)) largest = &row;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      key, ": a worker needs ", HumanBytes(needed), " of ", memory::SpaceName(space),
      " memory (largest: ", largest->name, ", ", HumanBytes(largest->bytes), "), ", HumanBytes(needed - *most),
      " more than ", limit, "; raise it, or use ", absl::StrJoin(settings, ", or ")));
}

}  // namespace

absl::Status CheckMemoryLimits(const v1::Config& config, const memory::MemoryPlan& plan) {
  ZF_RETURN_IF_ERROR(CheckLimit("memory.device_limit", config.memory().device_limit(), plan, memory::Space::kDevice,
                                LessOnTheDevice(config)));
  return CheckLimit("memory.host_limit", config.memory().host_limit(), plan, memory::Space::kHost,
                    LessOnTheHost(config));
}

}  // namespace zerofleet::trainer
