// The rows of the plan; see memory_plan.h.
#include "worker/zero/memory_plan.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "worker/device/step_control.h"
#include "worker/zero/slots.h"
#include "worker/zero/training_state.h"
#include "worker/zero/updater_factory.h"

namespace zerofleet {

std::string ParameterSlotRow(int slot) { return absl::StrCat("parameter slot ", slot); }
std::string GradientSlotRow(int slot) { return absl::StrCat("gradient slot ", slot); }
std::string GradientStagingRow(int slot) { return absl::StrCat("gradient staging ", slot); }

namespace {

constexpr int64_t kF32Bytes = 4;

// Whole units outside the resting vectors: stage 3's gathered parameters, and gradients on their way.
void AddSlots(const ZeroLayout& layout, MemoryPlan& plan) {
  SlotPlan slots = PlanSlots(layout.partition());
  bool staging = layout.stage().split_gradients && layout.accumulates();
  for (int s = 0; s < static_cast<int>(slots.unit_of_slot.size()); ++s) {
    int64_t unit = layout.partition().PaddedElements(slots.unit_of_slot[s]);
    int64_t shard = layout.partition().ShardElements(slots.unit_of_slot[s]);
    if (layout.stage().split_parameters) {
      plan.rows.push_back(
          {Space::kDevice, Category::kGathered, ParameterSlotRow(s), unit * DTypeBytes(layout.options().dtype)});
    }
    if (layout.needs_gradient_slots()) {
      plan.rows.push_back({Space::kDevice, Category::kGathered, GradientSlotRow(s), unit * kF32Bytes});
    }
    if (staging) plan.rows.push_back({Space::kDevice, Category::kBuffers, GradientStagingRow(s), shard * kF32Bytes});
  }
}

}  // namespace

MemoryPlan PlanMemory(const Model& model, const ZeroLayout& layout, int64_t tokens_per_micro_batch) {
  constexpr int64_t kSumsAtATime = 4096;  // so that the plan does not grow with a few more layers
  const int64_t sums = RoundUp(layout.units() + layout.options().micro_batches, kSumsAtATime);
  const int64_t scalars = (1 + layout.options().world_size) * static_cast<int64_t>(sizeof(StepScalars));
  const int64_t control = static_cast<int64_t>(sizeof(StepControl));
  const int64_t tokens = 2 * tokens_per_micro_batch * 4;
  MemoryPlan plan;
  plan.rows = {
      {Space::kDevice, Category::kParameters, kParametersRow,
       layout.parameter_elements() * DTypeBytes(layout.options().dtype)},
      {Space::kDevice, Category::kGradients, kGradientsRow,
       layout.gradient_elements() * DTypeBytes(layout.gradient_dtype())},
  };
  const auto add = [&](const std::vector<MemoryRow>& rows) {
    plan.rows.insert(plan.rows.end(), rows.begin(), rows.end());
  };
  add(UpdaterRows(layout));
  add({
      {Space::kDevice, Category::kActivations, kActivationsRow, model.ActivationBytes()},
      {Space::kDevice, Category::kBuffers, kModelScratchRow, model.ScratchBytes()},
      {Space::kDevice, Category::kBuffers, kTokensRow, tokens},
      {Space::kDevice, Category::kBuffers, kSumsRow, sums * 8},
      {Space::kDevice, Category::kBuffers, kScalarsRow, scalars},
      {Space::kDevice, Category::kBuffers, kControlRow, control},
      {Space::kHost, Category::kBuffers, kResultsRow, kMostLaunchedSteps * control},
      {Space::kHost, Category::kBuffers, kTokenStagingRow, kTokenStages * tokens},
      {Space::kHost, Category::kBuffers, kSnapshotRow, TrainingState::StoredBytes(layout), /*late=*/true},
  });
  AddSlots(layout, plan);
  return plan;
}

}  // namespace zerofleet
