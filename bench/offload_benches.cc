// See offload_benches.h.
#include "bench/offload_benches.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/device_timing.h"
#include "worker/memory/arena.h"
#include "worker/model/spec.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/step_rule.h"
#include "worker/zero/updater_factory.h"

namespace zerofleet::bench {
namespace {

constexpr const char *kParameters = "parameters", *kGradient = "gradient", *kControl = "control";

v1::OptimizerConfig SettingsOf(const optim::OptimizerRow& optimizer) {
  v1::OptimizerConfig settings;
  for (const optim::OptimizerKey& key : optimizer.keys) (settings.*key.set)(key.value_if_absent);
  return settings;
}

absl::StatusOr<double> UpdateSeconds(device::Device& device, const model::ModelSpec& spec,
                                     const optim::OptimizerRow& optimizer, int rounds) {
  const zero::ZeroLayout layout(spec, {.stage = 2, .optimizer = &optimizer, .offload = true});
  int64_t most = 0;
  for (int u = 0; u < layout.units(); ++u) most = std::max(most, layout.partition().ShardElements(u));
  const int64_t element = device::DTypeBytes(layout.options().dtype);
  memory::MemoryPlan plan{zero::UpdaterRows(layout)};
  using memory::Category;
  using memory::Space;
  plan.rows.push_back({Space::kDevice, Category::kParameters, kParameters, layout.parameter_elements() * element});
  plan.rows.push_back({Space::kDevice, Category::kBuffers, kGradient, most * element});
  plan.rows.push_back({Space::kDevice, Category::kBuffers, kControl, sizeof(device::StepControl)});
  ZF_ASSIGN_OR_RETURN(const auto on_device, memory::Arena::Create(plan, Space::kDevice, device));
  ZF_ASSIGN_OR_RETURN(const auto on_host, memory::Arena::Create(plan, Space::kHost, device));
  ZF_ASSIGN_OR_RETURN(const auto stream, device.CreateStream());
  const auto updater = zero::CreateUpdater({spec, layout, device, *stream, *on_device, *on_host});
  ZF_RETURN_IF_ERROR(updater->Initialize(1));
  const device::Tensor parameters{on_device->Take(kParameters), layout.options().dtype};
  const device::Tensor gradient{on_device->Take(kGradient), layout.options().dtype};
  RandomRooms rooms(device, *stream);
  ZF_ASSIGN_OR_RETURN(const RandomRoom values, rooms.Make(most, 1.0f, device::DType::kF32));
  device.ops().Convert(*stream, most, values.tensor(), gradient);
  for (int u = 0; u < layout.units(); ++u) ZF_RETURN_IF_ERROR(updater->TakeGradient(u, gradient));
  auto* const control = on_device->TakeAs<device::StepControl>(kControl);
  const device::StepRule rule = optim::StepRuleOf(SettingsOf(optimizer), 1, 1e-3, {});
  const device::StepControl decided = {.updates = 1, .apply = 1, .factors = device::FactorsOf(rule, 1.0, 1)};
  device.Copy(*stream, control, &decided, sizeof decided);
  absl::Status status;
  ZF_ASSIGN_OR_RETURN(const double seconds, BestLaunchSeconds(device, *stream, rounds, [&](int64_t) {
                        status.Update(updater->Update(control, {}, parameters, /*delayed=*/false));
                        for (int u = 0; u < layout.units(); ++u) status.Update(updater->FinishUnit(u));
                      }));
  ZF_RETURN_IF_ERROR(status);
  return seconds;
}

}  // namespace

absl::StatusOr<std::vector<OptimizerRate>> BenchHostUpdate(device::Device& device, const v1::ModelConfig& model,
                                                           int rounds) {
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(model));
  ZF_ASSIGN_OR_RETURN(const double memory, MemoryBytesPerSecond(device.host(), spec.parameters(), rounds));
  std::vector<OptimizerRate> rates;
  for (const optim::OptimizerRow& optimizer : optim::Optimizers()) {
    ZF_ASSIGN_OR_RETURN(const double seconds, UpdateSeconds(device, spec, optimizer, rounds));
    // The gradient is read, the states are read and written, the parameter is written on the device.
    const int64_t bytes = 2 * device::DTypeBytes(device::DType::kBF16) + 2 * optimizer.StateBytesPerParameter();
    rates.push_back({absl::StrCat(optimizer.name, " on the host"), device::DTypeName(device::DType::kBF16),
                     spec.parameters(), bytes, seconds, static_cast<double>(spec.parameters() * bytes) / seconds,
                     memory});
  }
  return rates;
}

}  // namespace zerofleet::bench
