// See launch_plan.h.
#include "cli/planner/launch_plan.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/launcher/local_fleet.h"
#include "cli/planner/machine.h"
#include "cli/report/terminal.h"
#include "worker/device/device.h"
#include "worker/model/spec.h"
#include "worker/parallel/mesh.h"
#include "worker/trainer/memory_limits.h"
#include "worker/trainer/save_choice.h"

namespace zerofleet::cli {
namespace {

int64_t ProcessBytes(const LaunchPlan& launch) {
  return launch.plan.Bytes(memory::Space::kDevice) + launch.plan.Bytes(memory::Space::kHost) + launch.outside_bytes;
}

int64_t BytesOf(const memory::MemoryPlan& plan, memory::Category category) {
  return plan.Bytes(memory::Space::kDevice, category) + plan.Bytes(memory::Space::kHost, category);
}

}  // namespace

absl::StatusOr<LaunchPlan> PlanLaunch(const v1::Config& config) {
  LaunchPlan launch;
  launch.outside_bytes = OutsideBytes(config);
  const int workers = config.parallel().workers();
  ZF_ASSIGN_OR_RETURN(const std::string kind, device::ResolveDeviceKind(config.device()));
  launch.on_cpu = kind == "cpu";
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device,
                      device::CreateDevice({.kind = "cpu", .threads = ThreadsPerWorker(workers)}));
  const parallel::Mesh mesh = parallel::Mesh::OfOneNode(0, workers, static_cast<int>(config.parallel().tensor()));
  ZF_ASSIGN_OR_RETURN(launch.plan, trainer::PlanRankMemory(config, mesh, *device));
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(config.model()));
  launch.parameters = static_cast<double>(spec.parameters());
  ZF_ASSIGN_OR_RETURN(const StepTraffic traffic, PlanTraffic(config, workers));
  launch.sent_bytes = traffic.sum().sum();
  return launch;
}

absl::Status CheckLaunch(const v1::Config& config, const LaunchPlan& launch, int64_t usable_bytes) {
  const absl::Status limits = trainer::CheckMemoryLimits(config, launch.plan);
  if (!limits.ok()) return absl::InvalidArgumentError(limits.message());
  const int64_t workers = config.parallel().workers(), needed = workers * ProcessBytes(launch);
  if (!launch.on_cpu || needed <= usable_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the run needs ", HumanBytes(needed), " of memory on this machine, ", workers, " x ",
      HumanBytes(ProcessBytes(launch)), ", and ", HumanBytes(usable_bytes),
      " can be used; let `zerofleet train --auto` choose the settings, use a smaller model, or plan another machine "
      "with `zerofleet plan`"));
}

std::string LaunchText(const v1::Config& config, const LaunchPlan& launch, int columns) {
  const int workers = config.parallel().workers();
  std::vector<std::string> parts;
  for (int c = 0; c < memory::kCategories; ++c) {
    const auto category = static_cast<memory::Category>(c);
    if (const int64_t bytes = BytesOf(launch.plan, category); bytes > 0) {
      parts.push_back(absl::StrCat(memory::CategoryName(category), " ", HumanBytes(bytes)));
    }
  }
  const int64_t shared = launch.plan.SharedBytes(memory::Space::kDevice);
  if (shared > 0) parts.push_back(absl::StrCat(HumanBytes(shared), " of it shared"));
  const std::string first = absl::StrCat(
      "plan: ", HumanCount(launch.parameters), " parameters, stage ", config.parallel().zero_stage(), " on ", workers,
      workers == 1 ? " worker" : " workers", ", ", config.precision(), ": ", HumanBytes(ProcessBytes(launch)),
      " a worker, sends ", HumanBytes(static_cast<int64_t>(launch.sent_bytes)), " a step");
  constexpr int kIndent = 6;
  const std::string indent(kIndent, ' ');
  return absl::StrCat(WrapText(first, columns, kIndent), "\n", indent,
                      WrapText(absl::StrJoin(parts, ", "), columns, kIndent, kIndent));
}

PlannedMemory PlannedOf(const LaunchPlan& launch) {
  PlannedMemory planned;
  for (int c = 0; c < memory::kCategories; ++c) {
    planned.bytes[c] = BytesOf(launch.plan, static_cast<memory::Category>(c));
  }
  planned.reserved_bytes = launch.plan.Bytes(memory::Space::kDevice) + launch.plan.Bytes(memory::Space::kHost);
  planned.process_bytes = launch.on_cpu ? ProcessBytes(launch) : 0;
  return planned;
}

}  // namespace zerofleet::cli
