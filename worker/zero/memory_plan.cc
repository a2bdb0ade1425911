// The rows of the plan; see memory_plan.h.
#include "worker/zero/memory_plan.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/device/step_control.h"
#include "worker/zero/histograms.h"
#include "worker/zero/slots.h"
#include "worker/zero/training_state.h"
#include "worker/zero/updater_factory.h"

namespace zerofleet::zero {

bool SlotHasGradients(const ZeroLayout& layout, const SlotPlan& slots, int slot) {
  for (int u = 0; u < layout.units(); ++u) {
    if (slots.slot_of_unit[u] == slot && !layout.frozen(u)) return true;
  }
  return false;
}

std::string OwnSnapshotRow(int which) { return absl::StrCat("snapshot ", which); }
std::string ReplicaRow(int which) { return absl::StrCat("replica ", which); }
std::string ParameterSlotRow(int slot) { return absl::StrCat("parameter slot ", slot); }
std::string GradientSlotRow(int slot) { return absl::StrCat("gradient slot ", slot); }
std::string BucketRow(int bucket) { return absl::StrCat("gradient bucket ", bucket); }
std::string BucketStagingRow(int bucket) { return absl::StrCat("gradient bucket staging ", bucket); }
std::string GradientStagingRow(int slot) { return absl::StrCat("gradient staging ", slot); }

namespace {

using memory::Category;
using memory::Space;

constexpr int64_t kF32Bytes = 4;

using Pieces = std::vector<memory::Piece>;

// Whether a step's gradients, on their way or at rest, are gone once its update is enqueued (they are not summed over
// micro-batches, and no copy to the host runs beside the next step), and it is known when in a pass they come into
// being.
bool GradientsEndWithPass(const ZeroLayout& layout) {
  return !layout.accumulates() && !layout.offloads() && !layout.scripted();
}

// A unit's gradient, in use from when the backward first adds to it.
memory::Piece GradientPiece(const ZeroLayout& layout, int unit, int64_t bytes) {
  return {bytes, model::BackwardPhase(layout.FirstGradientOf(unit), layout.passed_units())};
}

// The resting gradients. A gradient that is summed in a slot comes here only when it is complete.
Pieces RestingGradients(const ZeroLayout& layout) {
  if (!GradientsEndWithPass(layout)) return {};
  const bool split = layout.stage().split_gradients;
  Pieces pieces;
  for (int u = 0; u < layout.units(); ++u) {
    if (layout.frozen(u)) continue;
    const int64_t elements = split ? layout.partition().ShardElements(u) : layout.partition().PaddedElements(u);
    pieces.push_back(GradientPiece(layout, u, elements * device::DTypeBytes(layout.gradient_dtype())));
    if (!layout.needs_gradient_slots()) continue;
    pieces.back().first = model::BackwardPhase(layout.PassedWith(u), layout.passed_units());
  }
  return pieces;
}

Pieces GradientSlot(const ZeroLayout& layout, const SlotPlan& slots, int slot, int64_t bytes) {
  if (!GradientsEndWithPass(layout)) return {};
  int last = 0;  // the backward's first unit that uses the slot
  for (int u = 0; u < layout.units(); ++u) last = slots.slot_of_unit[u] == slot && !layout.frozen(u) ? u : last;
  return {GradientPiece(layout, last, bytes)};
}

// The first unit's slot is in use up to the head's backward, where no block uses it later; with bands, the unit's
// gradient takes the parameters once more. Gradients that begin in a backward and end with it leave nothing in the slot
// for the next pass.
Pieces ParameterSlot(const model::Model& model, const ZeroLayout& layout, const SlotPlan& slots, int slot,
                     int64_t bytes) {
  if (layout.scripted()) return {};
  const std::vector<int>& uses = model.uses().training;
  const auto last_use = [&](int unit) { return std::find(uses.rbegin(), uses.rend(), unit); };
  const bool ends = last_use(0) > last_use(layout.passed_units() - 2);
  if (slots.unit_of_slot[slot] != 0 || !ends || layout.gradients_in_bands()) return {};
  return {{bytes, model::kForwardPhase, model::BackwardPhase(layout.passed_units() - 1, layout.passed_units())}};
}

// A save that reads the states in place needs no row.
void AddSave(const ZeroLayout& layout, SaveFrom saves, memory::MemoryPlan& plan) {
  const auto add = [&plan](const char* name, int64_t bytes, bool late) {
    plan.rows.push_back({Space::kHost, Category::kBuffers, name, bytes, late});
  };
  if (saves == SaveFrom::kSnapshot) add(kSnapshotRow, TrainingState::StoredBytes(layout), /*late=*/true);
  if (saves == SaveFrom::kStagedStates) add(kStagingRow, 2 * StagingBytes(layout), /*late=*/false);
}

// Each has room for what any rank stores, so that a change of neighbours moves no memory.
void AddSnapshots(const ZeroLayout& layout, const HostCopies& copies, memory::MemoryPlan& plan) {
  const int64_t bytes = TrainingState::MostStoredBytes(layout);
  const auto add = [&](std::string (*name)(int)) {
    for (int i = 0; i < kSnapshotsKept; ++i) {
      plan.rows.push_back({Space::kHost, Category::kBuffers, name(i), bytes, /*late=*/true});
    }
  };
  if (copies.snapshots) add(OwnSnapshotRow);
  if (copies.replicas) add(ReplicaRow);
}

// Whole units outside the resting vectors: stage 3's gathered parameters, and gradients on their way.
void AddSlots(const model::Model& model, const ZeroLayout& layout, memory::MemoryPlan& plan) {
  const bool staging = layout.stage().split_gradients && layout.accumulates() && !layout.chains();
  const SlotPlan &parameters = layout.parameter_slots(), &gradients = layout.gradient_slots();
  const auto add_parameters = [&](int s) {
    const int64_t bytes =
        layout.partition().PaddedElements(parameters.unit_of_slot[s]) * device::DTypeBytes(layout.options().dtype);
    plan.rows.push_back({Space::kDevice, Category::kGathered, ParameterSlotRow(s), bytes,
                         /*late=*/false, ParameterSlot(model, layout, parameters, s, bytes)});
  };
  const auto add_gradients = [&](int s) {
    const int unit = gradients.unit_of_slot[s];
    if (const int64_t bytes = layout.GradientSlotBytes(unit); bytes > 0) {
      plan.rows.push_back({Space::kDevice, Category::kGathered, GradientSlotRow(s), bytes,
                           /*late=*/false, GradientSlot(layout, gradients, s, bytes)});
    }
    if (staging) {
      plan.rows.push_back({Space::kDevice, Category::kBuffers, GradientStagingRow(s),
                           layout.partition().ShardElements(unit) * kF32Bytes});
    }
  };
  const int parameter_slots = static_cast<int>(parameters.unit_of_slot.size()),
            gradient_slots = static_cast<int>(gradients.unit_of_slot.size());
  for (int s = 0; s < std::max(parameter_slots, gradient_slots); ++s) {
    if (s < parameter_slots && layout.stage().split_parameters) add_parameters(s);
    const bool has_gradients = s < gradient_slots && SlotHasGradients(layout, gradients, s);
    if (has_gradients && !layout.gradients_in_bands()) add_gradients(s);
  }
}

// Instead of gradient slots, where gradients leave in bands: buffers whose size does not depend on the model (ZeRO
// §6.2).
void AddBuckets(const model::Model& model, const ZeroLayout& layout, memory::MemoryPlan& plan) {
  if (!layout.gradients_in_bands()) return;
  plan.rows.push_back({Space::kDevice, Category::kGathered, kGradientBandRow, model.BandBytes()});
  // A gradient that is kept whole needs no bucket: it is rounded to where it rests.
  for (int i = 0; i < kBuckets && layout.stage().split_gradients; ++i) {
    plan.rows.push_back({Space::kDevice, Category::kGathered, BucketRow(i), layout.options().bucket_bytes});
    if (!layout.stages_buckets()) continue;
    plan.rows.push_back(
        {Space::kDevice, Category::kBuffers, BucketStagingRow(i), layout.bucket_elements() * kF32Bytes});
  }
}

}  // namespace

int64_t StagingBytes(const ZeroLayout& layout) {
  constexpr int64_t kMostBytes = int64_t{4} << 20;
  return std::min(TrainingState::StoredBytes(layout), kMostBytes);
}

memory::MemoryPlan PlanMemory(const model::Model& model, const ZeroLayout& layout, int64_t tokens_per_micro_batch,
                              const HostCopies& copies, int arrays) {
  const int64_t control = static_cast<int64_t>(sizeof(device::StepControl));
  const int64_t tokens = arrays * tokens_per_micro_batch * 4;
  memory::MemoryPlan plan;
  plan.rows = {
      {layout.parameters_on_host() ? Space::kHost : Space::kDevice, Category::kParameters, kParametersRow,
       layout.parameter_elements() * device::DTypeBytes(layout.options().dtype)},
      {Space::kDevice, Category::kGradients, kGradientsRow,
       layout.gradient_elements() * device::DTypeBytes(layout.gradient_dtype()), /*late=*/false,
       RestingGradients(layout)},
  };
  const auto add = [&](const std::vector<memory::MemoryRow>& rows) {
    plan.rows.insert(plan.rows.end(), rows.begin(), rows.end());
  };
  add(UpdaterRows(layout));
  add({
      {Space::kDevice, Category::kActivations, kActivationsRow, model.ActivationBytes(),
       /*late=*/false, model.ActivationPieces()},
      {Space::kDevice, Category::kBuffers, kModelScratchRow, model.ScratchBytes(), /*late=*/false,
       model.ScratchPieces()},
      {Space::kDevice, Category::kBuffers, kTokensRow, tokens},
      {Space::kDevice, Category::kBuffers, kSumsRow, SumsRowBytes(layout)},
      {Space::kDevice, Category::kBuffers, kScalarsRow, ScalarsRowBytes(layout)},
      {Space::kDevice, Category::kBuffers, kControlRow, control},
      {Space::kHost, Category::kBuffers, kResultsRow, kMostLaunchedSteps * control},
      {Space::kHost, Category::kBuffers, kTokenStagingRow, kTokenStages * tokens},
  });
  add(Histograms::Rows(layout));
  AddSave(layout, copies.saves, plan);
  if (const int64_t bytes = model.HostActivationBytes(); bytes > 0) {
    plan.rows.push_back({Space::kHost, Category::kActivations, kActivationsRow, bytes});
  }
  AddSnapshots(layout, copies, plan);
  AddSlots(model, layout, plan);
  AddBuckets(model, layout, plan);
  return plan;
}

}  // namespace zerofleet::zero
