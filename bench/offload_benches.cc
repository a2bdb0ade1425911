// See offload_benches.h.
#include "bench/offload_benches.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status.h"
#include "bench/device_timing.h"
#include "worker/memory/arena.h"
#include "worker/memory/scratch_file.h"
#include "worker/model/spec.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/step_rule.h"
#include "worker/zero/state_file.h"
#include "worker/zero/updater_factory.h"

namespace zerofleet::bench {
namespace {

constexpr const char *kParameters = "parameters", *kGradient = "gradient", *kControl = "control";

v1::OptimizerConfig SettingsOf(const optim::OptimizerRow& optimizer) {
  v1::OptimizerConfig settings;
  for (const optim::OptimizerKey& key : optimizer.keys) (settings.*key.set)(key.value_if_absent);
  return settings;
}

// Seconds of one update. `scratch` holds the states if the layout places them in a file, otherwise null.
absl::StatusOr<double> UpdateSeconds(device::Device& device, const model::ModelSpec& spec,
                                     const zero::ZeroLayout& layout, memory::ScratchFile* scratch, int rounds) {
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
  const auto updater = zero::CreateUpdater({spec, layout, device, *stream, *on_device, *on_host, scratch});
  ZF_RETURN_IF_ERROR(updater->Initialize(1));
  const device::Tensor parameters{on_device->Take(kParameters), layout.options().dtype};
  const device::Tensor gradient{on_device->Take(kGradient), layout.options().dtype};
  RandomRooms rooms(device, *stream);
  ZF_ASSIGN_OR_RETURN(const RandomRoom values, rooms.Make(most, 1.0f, device::DType::kF32));
  device.ops().Convert(*stream, most, values.tensor(), gradient);
  for (int u = 0; u < layout.units(); ++u) ZF_RETURN_IF_ERROR(updater->TakeGradient(u, gradient));
  auto* const control = on_device->TakeAs<device::StepControl>(kControl);
  const device::StepRule rule = optim::StepRuleOf(SettingsOf(layout.optimizer()), 1, 1e-3, {});
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

// The rate at which the file is read and written piece by piece, one vector of a tile at a time.
absl::StatusOr<double> DiskBytesPerSecond(device::Device& device, memory::ScratchFile& file, int64_t bytes,
                                          int rounds) {
  constexpr int64_t kPiece = zero::kMostTileElements * 4, kBlock = memory::ScratchFile::kBlock;
  ZF_ASSIGN_OR_RETURN(const auto memory, device.ReserveHost(kPiece + kBlock));
  const auto address = reinterpret_cast<uintptr_t>(memory->data());
  std::byte* const piece = memory->data() + (kBlock - address % kBlock) % kBlock;
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const double start = Clock::Real().MonotonicSeconds();
    for (int64_t offset = 0; offset < bytes; offset += kPiece) {
      const std::span<std::byte> part(piece, static_cast<size_t>(std::min(kPiece, bytes - offset)));
      ZF_RETURN_IF_ERROR(file.Read(offset, part));
      ZF_RETURN_IF_ERROR(file.Write(offset, part));
    }
    best = std::max(best, 2 * static_cast<double>(bytes) / (Clock::Real().MonotonicSeconds() - start));
  }
  return best;
}

}  // namespace

absl::StatusOr<std::vector<OptimizerRate>> BenchHostUpdate(device::Device& device, const v1::ModelConfig& model,
                                                           int rounds) {
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(model));
  ZF_ASSIGN_OR_RETURN(const double memory, MemoryBytesPerSecond(device.host(), spec.parameters(), rounds));
  std::vector<OptimizerRate> rates;
  for (const optim::OptimizerRow& optimizer : optim::Optimizers()) {
    if (optimizer.whole_matrices) continue;  // it does not update a flat vector
    const zero::ZeroLayout layout(spec, {.stage = 2, .optimizer = &optimizer, .placement = zero::kStatesOnHost});
    ZF_ASSIGN_OR_RETURN(const double seconds, UpdateSeconds(device, spec, layout, /*scratch=*/nullptr, rounds));
    // The gradient is read, the states are read and written, the parameter is written on the device.
    const int64_t bytes = 2 * device::DTypeBytes(device::DType::kBF16) + 2 * optimizer.StateBytesPerParameter();
    rates.push_back({absl::StrCat(optimizer.name, " on the host"), device::DTypeName(device::DType::kBF16),
                     spec.parameters(), bytes, seconds, static_cast<double>(spec.parameters() * bytes) / seconds,
                     memory});
  }
  return rates;
}

absl::StatusOr<std::vector<OptimizerRate>> BenchUpdateOnDisk(device::Device& device, const v1::ModelConfig& model,
                                                             const std::string& directory, int rounds) {
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(model));
  std::vector<OptimizerRate> rates;
  for (const optim::OptimizerRow& optimizer : optim::Optimizers()) {
    if (optimizer.whole_matrices) continue;  // it does not update a flat vector
    const zero::ZeroLayout layout(spec, {.stage = 2, .optimizer = &optimizer, .placement = zero::kStatesInFile});
    const int64_t all = zero::StateFile::FileBytes(layout);
    ZF_ASSIGN_OR_RETURN(const auto scratch, memory::ScratchFile::Create(directory, "zerofleet-bench", all));
    ZF_ASSIGN_OR_RETURN(const double seconds, UpdateSeconds(device, spec, layout, scratch.get(), rounds));
    ZF_ASSIGN_OR_RETURN(const double disk, DiskBytesPerSecond(device, *scratch, all, rounds));
    rates.push_back({absl::StrCat(optimizer.name, ", states in a file"), device::DTypeName(device::DType::kBF16),
                     spec.parameters(), 2 * optimizer.StateBytesPerParameter(), seconds,
                     2 * static_cast<double>(all) / seconds, disk});
  }
  return rates;
}

}  // namespace zerofleet::bench
