// Offsets of units and shards; see layout.h.
#include "worker/zero/layout.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/units.h"
#include "coordinator/batch_shares.h"
#include "worker/model/script.h"

namespace zerofleet::zero {
namespace {

// The split between the two spaces is at a multiple of it, so that both begin at a cache line; divides every shard.
constexpr int64_t kStatesTogether = 32;

int64_t StatesOnDevice(const ZeroOptions& options, int64_t elements) {
  if (!options.placement.leaves_device()) return elements;
  const double leave = std::ceil(options.placement.fraction * static_cast<double>(elements) / kStatesTogether);
  return std::max<int64_t>(0, elements - static_cast<int64_t>(leave) * kStatesTogether);
}

const StageRow& StageOf(const ZeroOptions& options) {
  const bool once = options.micro_batches > 1 && options.reduce == ReduceEvery::kStep;
  return Stage(options.stage, once ? ReduceEvery::kStep : ReduceEvery::kMicroBatch, options.order);
}

}  // namespace

ZeroLayout::ZeroLayout(const model::ModelSpec& spec, const ZeroOptions& options)
    : options_(options),
      stage_(StageOf(options)),
      partition_(spec.units(), options.world_size),
      unit_kinds_(spec.unit_kinds()),
      passed_units_(spec.passed_units()),
      part_(spec.part()) {
  ZF_CHECK(options.placement.Fits(stage_, options.bucket_bytes > 0));
  if (chains()) {
    ZF_CHECK(options.bucket_bytes == 0 && options.reduce == ReduceEvery::kMicroBatch);
    ZF_CHECK(CeilDivide(options.leaves, options.world_size) == options.micro_batches);
  }
  if (optimizer().whole_matrices) whole_matrices_ = MatricesIn(spec);
  states_on_device_ = StatesOnDevice(options, optimizer_elements());
  if (const model::PassScript* const script = spec.script()) {
    scripted_ = true;
    std::vector<int64_t> elements;
    for (int u = 0; u < units(); ++u) elements.push_back(partition_.PaddedElements(u));
    parameter_slots_ = PlanSlots(*script, SlotUse::kParameters, elements);
    for (int u = 0; u < units(); ++u) elements[u] = frozen(u) ? 0 : elements[u];  // frozen units widen no slot
    gradient_slots_ = PlanSlots(*script, SlotUse::kGradients, elements);
  } else {
    parameter_slots_ = gradient_slots_ = PlanSlots(unit_kinds_);
  }
  assigned_.resize(static_cast<size_t>(units()));
  for (const model::TensorSpec& tensor : spec.tensors()) assigned_[tensor.unit] = tensor.assigned;
  int64_t offset = 0;
  for (int u = 0; u < units(); ++u) {
    unit_offset_.push_back(offset);
    first_gradients_.push_back(spec.FirstGradientOf(u));
    passed_with_.push_back(spec.PassedWith(u));
    held_.push_back(HeldIn(spec, u));
    offset += partition_.PaddedElements(u);
    counted_.push_back(CountedIn(spec, u));
    first_counted_.push_back(first_counted_.back() + static_cast<int64_t>(counted_.back().size()));
  }
}

int64_t ZeroLayout::GradientSlotBytes(int unit) const {
  if (!needs_gradient_slots()) return 0;
  const int64_t elements = partition_.PaddedElements(unit);
  if (!written(unit)) return elements * device::DTypeBytes(device::DType::kF32);
  return stage_.split_gradients || chains() ? elements * device::DTypeBytes(options_.dtype) : 0;
}

ZeroLayout::WholeMatrices ZeroLayout::MatricesIn(const model::ModelSpec& spec) const {
  WholeMatrices matrices;
  matrices.in_unit.resize(static_cast<size_t>(units()));
  for (const model::TensorSpec& tensor : spec.tensors()) {
    if (!IsWholeMatrix(tensor)) continue;
    matrices.in_unit[tensor.unit] = true;
    const int64_t side = std::min(tensor.whole_shape[0], tensor.whole_shape[1]);
    matrices.largest = std::max(matrices.largest, model::ElementsOf(tensor.whole_shape));
    matrices.largest_gram = std::max(matrices.largest_gram, side * side);
    matrices.largest_unit = std::max(matrices.largest_unit, partition_.PaddedElements(tensor.unit));
  }
  return matrices;
}

std::vector<ZeroLayout::HeldRange> ZeroLayout::HeldIn(const model::ModelSpec& spec, int unit) const {
  std::vector<HeldRange> held;
  if (frozen(unit)) return held;
  for (const model::TensorSpec& tensor : spec.tensors()) {
    if (tensor.unit != unit || !tensor.frozen) continue;
    held.push_back({tensor.flat_begin - partition_.unit(unit).flat_begin, tensor.elements()});
  }
  return held;
}

std::vector<ZeroLayout::ShardRange> ZeroLayout::CountedIn(const model::ModelSpec& spec, int unit) const {
  if (frozen(unit) || assigned(unit)) return {};
  const coordinator::PlacedRange owned = Owned(unit);
  if (part_.count == 1) return {{0, owned.elements()}};
  std::vector<ShardRange> counted;
  for (const model::TensorSpec& tensor : spec.tensors()) {
    const int64_t begin = std::max(owned.flat_begin, tensor.flat_begin),
                  end = std::min(owned.flat_end, tensor.flat_end);
    if (begin >= end || !tensor.cut.CountsIn(part_)) continue;
    const int64_t at = begin - owned.flat_begin;
    const bool follows = !counted.empty() && counted.back().begin + counted.back().elements == at;
    if (follows) counted.back().elements += end - begin;
    if (!follows) counted.push_back({at, end - begin});
  }
  return counted;
}

int ZeroLayout::Contributors(const StepBatch& batch, int64_t micro_batch) const {
  if (!chains()) return options_.world_size;
  return static_cast<int>(coordinator::RanksInRound(batch.leaves, options_.world_size, micro_batch));
}

int64_t ZeroLayout::CountedMicroBatches(const StepBatch& batch) const {
  const int64_t last = batch.micro_batches - 1;
  return options_.rank < Contributors(batch, last) ? last + 1 : last;
}

int64_t ZeroLayout::StaysOnDevice(int unit) const {
  const UpdatedRange piece = Updated(unit);
  return std::clamp<int64_t>(states_on_device() - piece.state_offset, 0, piece.elements());
}

int64_t ZeroLayout::ShardOffset(int unit, bool split) const {
  return split ? partition_.ShardOffset(unit) : UnitOffset(unit) + options_.rank * partition_.ShardElements(unit);
}

int64_t ZeroLayout::TrainedShardOffset(int unit, bool split) const {
  return split ? partition_.TrainedShardOffset(unit)
               : TrainedUnitOffset(unit) + options_.rank * partition_.ShardElements(unit);
}

coordinator::PlacedRange ZeroLayout::RestingParameters(int unit) const {
  if (stage_.split_parameters) return Owned(unit);
  const coordinator::UnitExtent& extent = partition_.unit(unit);
  return {extent.flat_begin, extent.flat_end, UnitOffset(unit)};
}

ZeroLayout::UpdatedRange ZeroLayout::Updated(int unit) const {
  const coordinator::UnitExtent& extent = partition_.unit(unit);
  if (frozen(unit)) return {extent.flat_begin, extent.flat_begin, 0, 0, TrainedShardOffset(unit, true)};
  if (!stage_.split_optimizer) {
    const int64_t offset = TrainedUnitOffset(unit);
    return {extent.flat_begin, extent.flat_end, UnitOffset(unit), offset, offset};
  }
  coordinator::PlacedRange owned = Owned(unit);
  return {owned.flat_begin, owned.flat_end, ShardOffset(unit, stage_.split_parameters),
          TrainedShardOffset(unit, stage_.split_gradients), TrainedShardOffset(unit, true)};
}

std::string ZeroLayout::Describe(const model::ModelSpec& spec) const {
  std::string text = absl::StrCat(
      "stage ", options_.stage, " dtype ", device::DTypeName(options_.dtype), " micro-batches ", options_.micro_batches,
      stage_.split_gradients ? " reduced each" : "", chains() ? absl::StrCat(" leaves ", options_.leaves) : "",
      " optimizer ", optimizer().name, offloads() ? " on the host" : "",
      gradients_in_bands() ? absl::StrCat(" buckets of ", options_.bucket_bytes) : "",
      offloads() && states_on_device() > 0 ? absl::StrCat(" but for ", states_on_device()) : "",
      parameters_on_host() ? ", parameters too" : "", part_.count > 1 ? absl::StrCat(" parts ", part_.count) : "", "\n",
      partition_.Describe());
  for (const model::TensorSpec& tensor : spec.tensors()) {
    absl::StrAppend(&text, tensor.name, " [", absl::StrJoin(tensor.shape, ","), "] ", tensor.flat_begin, "\n");
  }
  return text;
}

}  // namespace zerofleet::zero
