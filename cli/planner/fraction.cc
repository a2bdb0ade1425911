// See fraction.h.
#include "cli/planner/fraction.h"

#include <memory>
#include <optional>

#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/memory/arena.h"
#include "worker/parallel/mesh.h"
#include "worker/trainer/rules.h"
#include "worker/trainer/save_choice.h"

namespace zerofleet::cli {
namespace {

constexpr int64_t kFractionSteps = int64_t{1} << 20;

}  // namespace

absl::StatusOr<v1::Config> WithPlannedFraction(const v1::Config& config, device::Device& device) {
  v1::Config planned = config;
  if (config.offload().fraction() != trainer::kFractionByPlan) return planned;
  const std::optional<int64_t> limit = ParseBytes(config.memory().device_limit());
  ZF_CHECK(limit.has_value());  // config_check.cc has parsed it
  const parallel::Mesh mesh = parallel::Mesh::OfOneNode(0, static_cast<int>(config.parallel().workers()),
                                                        static_cast<int>(config.parallel().tensor()));
  const auto fits = [&](int64_t steps) -> absl::StatusOr<bool> {
    planned.mutable_offload()->set_fraction(static_cast<double>(steps) / kFractionSteps);
    ZF_ASSIGN_OR_RETURN(const memory::MemoryPlan plan, trainer::PlanRankMemory(planned, mesh, device));
    return plan.Bytes(memory::Space::kDevice) <= *limit;
  };
  // Fraction 0 is tried separately: only there do gradients share memory with activations. Above 0, a larger fraction
  // never needs more device memory, so a binary search works.
  ZF_ASSIGN_OR_RETURN(const bool all_stay, fits(0));
  if (all_stay) return planned;
  int64_t low = 1, high = kFractionSteps;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    ZF_ASSIGN_OR_RETURN(const bool enough, fits(middle));
    (enough ? high : low) = enough ? middle : middle + 1;
  }
  planned.mutable_offload()->set_fraction(static_cast<double>(low) / kFractionSteps);
  return planned;
}

absl::StatusOr<v1::Config> WithPlannedFraction(const v1::Config& config, int threads) {
  if (config.offload().fraction() != trainer::kFractionByPlan) return config;
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device,
                      device::CreateDevice({.kind = "cpu", .threads = threads}));
  return WithPlannedFraction(config, *device);
}

}  // namespace zerofleet::cli
