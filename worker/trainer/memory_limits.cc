// See memory_limits.h.
#include "worker/trainer/memory_limits.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "google/protobuf/util/message_differencer.h"
#include "worker/trainer/rules.h"

namespace zerofleet::trainer {

namespace {

// A setting that reduces the memory of a space; `apply` leaves a configuration that has it unchanged.
struct Remedy {
  const char* text;
  void (*apply)(v1::Config& config);
};

// Ordered so that those that cost least speed come first.
constexpr Remedy kLessOnTheDevice[] = {
    {"parallel.zero_stage: 3",
     [](v1::Config& c) {
       if (c.parallel().workers() > 1) c.mutable_parallel()->set_zero_stage(3);
     }},
    {"offload.optimizer: cpu", [](v1::Config& c) { c.mutable_offload()->set_optimizer("cpu"); }},
    {"offload.optimizer: cpu with parallel.zero_stage: 2",
     [](v1::Config& c) {
       if (c.parallel().zero_stage() > 0) return;
       c.mutable_offload()->set_optimizer("cpu");
       c.mutable_parallel()->set_zero_stage(2);
     }},
    {"offload.fraction: 1", [](v1::Config& c) { c.mutable_offload()->set_fraction(1); }},
    {"offload.parameters: cpu", [](v1::Config& c) { c.mutable_offload()->set_parameters("cpu"); }},
    {"offload.parameters: cpu with parallel.zero_stage: 3",
     [](v1::Config& c) {
       if (c.parallel().zero_stage() == 3) return;
       c.mutable_offload()->set_parameters("cpu");
       c.mutable_parallel()->set_zero_stage(3);
     }},
    {"parallel.sequence: true", [](v1::Config& c) { c.mutable_parallel()->set_sequence(true); }},
    {"activation.checkpointing: block",
     [](v1::Config& c) {
       if (c.activation().checkpointing() == "none") c.mutable_activation()->set_checkpointing("block");
     }},
    {"activation.partition: true", [](v1::Config& c) { c.mutable_activation()->set_partition(true); }},
    {"activation.offload: cpu", [](v1::Config& c) { c.mutable_activation()->set_offload("cpu"); }},
};

constexpr Remedy kLessOnTheHost[] = {
    {"checkpoint.snapshot_every_steps: 0", [](v1::Config& c) { c.mutable_checkpoint()->set_snapshot_every_steps(0); }},
    {"checkpoint.snapshot: stream",
     [](v1::Config& c) {
       if (c.checkpoint().snapshot() == "memory") c.mutable_checkpoint()->set_snapshot("stream");
     }},
    {"offload.speculative: false", [](v1::Config& c) { c.mutable_offload()->set_speculative(false); }},
    {"offload.parameters: none", [](v1::Config& c) { c.mutable_offload()->set_parameters("none"); }},
    {"offload.optimizer: nvme with offload.dir",
     [](v1::Config& c) {
       if (c.offload().optimizer() == "none") return;
       c.mutable_offload()->set_optimizer("nvme");
       c.mutable_offload()->set_dir("states");
     }},
    {"offload.optimizer: none", [](v1::Config& c) { c.mutable_offload()->set_optimizer("none"); }},
    {"activation.offload: none", [](v1::Config& c) { c.mutable_activation()->set_offload("none"); }},
};

// The texts of the remedies that change `config` and keep its keys consistent with each other.
std::vector<std::string> Applicable(std::span<const Remedy> remedies, const v1::Config& config) {
  std::vector<std::string> texts;
  for (const Remedy& remedy : remedies) {
    v1::Config changed = config;
    remedy.apply(changed);
    const bool same = google::protobuf::util::MessageDifferencer::Equals(changed, config);
    if (!same && FirstViolated(changed) == nullptr) texts.emplace_back(remedy.text);
  }
  return texts;
}

std::vector<std::string> LessOnTheDevice(const v1::Config& config) {
  std::vector<std::string> texts = Applicable(kLessOnTheDevice, config);
  if (config.batch().micro_sequences() > 1) texts.emplace_back("a smaller batch.micro_sequences");
  texts.emplace_back("more parallel.workers");
  return texts;
}

std::vector<std::string> LessOnTheHost(const v1::Config& config) {
  std::vector<std::string> texts = Applicable(kLessOnTheHost, config);
  texts.emplace_back("more parallel.workers");
  return texts;
}

absl::Status CheckLimit(const char* key, const std::string& limit, const memory::MemoryPlan& plan, memory::Space space,
                        std::vector<std::string> (*remedies)(const v1::Config&), const v1::Config& config) {
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
      " more than ", limit, "; raise it, or use ", absl::StrJoin(remedies(config), ", or ")));
}

}  // namespace

absl::Status CheckMemoryLimits(const v1::Config& config, const memory::MemoryPlan& plan) {
  ZF_RETURN_IF_ERROR(CheckLimit("memory.device_limit", config.memory().device_limit(), plan, memory::Space::kDevice,
                                LessOnTheDevice, config));
  return CheckLimit("memory.host_limit", config.memory().host_limit(), plan, memory::Space::kHost, LessOnTheHost,
                    config);
}

}  // namespace zerofleet::trainer
