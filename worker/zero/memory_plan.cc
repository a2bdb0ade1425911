// The rows of the plan; see memory_plan.h.
#include "worker/zero/memory_plan.h"

#include "absl/strings/str_cat.h"
#include "worker/zero/reduce.h"
#include "worker/zero/slots.h"

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
      plan.rows.push_back({Space::kDevice, Category::kGathered, ParameterSlotRow(s), unit * DTypeBytes(layout.options().dtype)});
    }
    if (GradientReducer::NeedsSlots(layout)) {
      plan.rows.push_back({Space::kDevice, Category::kGathered, GradientSlotRow(s), unit * kF32Bytes});
    }
    if (staging) plan.rows.push_back({Space::kDevice, Category::kBuffers, GradientStagingRow(s), shard * kF32Bytes});
  }
}

}  // namespace

MemoryPlan PlanMemory(const Model& model, const ZeroLayout& layout, int64_t tokens_per_micro_batch) {
  constexpr int64_t kScalars = 64;  // doubles; more than a step sums
  int64_t states = layout.optimizer_elements() * kF32Bytes;
  int64_t stored = 0;
  for (const PlacedRange& range : layout.partition().StoredRanges(layout.options().rank)) stored += range.elements();
  MemoryPlan plan;
  plan.rows = {
      {Space::kDevice, Category::kParameters, kParametersRow, layout.parameter_elements() * DTypeBytes(layout.options().dtype)},
      {Space::kDevice, Category::kGradients, kGradientsRow, layout.gradient_elements() * DTypeBytes(layout.gradient_dtype())},
      {Space::kDevice, Category::kOptimizer, kMasterRow, states},
      {Space::kDevice, Category::kOptimizer, kExpAvgRow, states},
      {Space::kDevice, Category::kOptimizer, kExpAvgSqRow, states},
      {Space::kDevice, Category::kActivations, kActivationsRow, model.ActivationBytes()},
      {Space::kDevice, Category::kBuffers, kModelScratchRow, model.ScratchBytes()},
      {Space::kDevice, Category::kBuffers, kTokensRow, 2 * tokens_per_micro_batch * 4},
      {Space::kDevice, Category::kBuffers, kScalarsRow, kScalars * 8},
      {Space::kHost, Category::kBuffers, kSnapshotRow, 3 * stored * kF32Bytes},
  };
  AddSlots(layout, plan);
  return plan;
}

}  // namespace zerofleet
