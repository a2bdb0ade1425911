// Offsets of units and shards; see layout.h.
#include "worker/zero/layout.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace zerofleet::zero {

ZeroLayout::ZeroLayout(const model::ModelSpec& spec, const ZeroOptions& options)
    : options_(options),
      stage_(Stage(options.stage, options.micro_batches > 1 ? options.reduce : ReduceEvery::kMicroBatch)),
      partition_(spec.units(), options.world_size) {
  ZF_CHECK(!options.offload || stage_.split_optimizer);
  ZF_CHECK(!options.delays || options.offload);
  int64_t offset = 0;
  for (int u = 0; u < units(); ++u) {
    unit_offset_.push_back(offset);
    offset += partition_.PaddedElements(u);
  }
}

int64_t ZeroLayout::ShardOffset(int unit, bool split) const {
  return split ? partition_.ShardOffset(unit) : UnitOffset(unit) + options_.rank * partition_.ShardElements(unit);
}

coordinator::PlacedRange ZeroLayout::RestingParameters(int unit) const {
  if (stage_.split_parameters) return Owned(unit);
  const coordinator::UnitExtent& extent = partition_.unit(unit);
  return {extent.flat_begin, extent.flat_end, UnitOffset(unit)};
}

ZeroLayout::Piece ZeroLayout::Updated(int unit) const {
  if (!stage_.split_optimizer) {
    const coordinator::UnitExtent& extent = partition_.unit(unit);
    int64_t offset = UnitOffset(unit);
    return {extent.flat_begin, extent.flat_end, offset, offset, offset};
  }
  coordinator::PlacedRange owned = Owned(unit);
  return {owned.flat_begin, owned.flat_end, ShardOffset(unit, stage_.split_parameters),
          ShardOffset(unit, stage_.split_gradients), ShardOffset(unit, true)};
}

std::string ZeroLayout::Describe(const model::ModelSpec& spec) const {
  std::string text =
      absl::StrCat("stage ", options_.stage, " dtype ", device::DTypeName(options_.dtype), " micro-batches ",
                   options_.micro_batches, stage_.split_gradients ? " reduced each" : "", " optimizer ",
                   optimizer().name, offloads() ? " on the host\n" : "\n", partition_.Describe());
  for (const model::TensorSpec& tensor : spec.tensors()) {
    absl::StrAppend(&text, tensor.name, " [", absl::StrJoin(tensor.shape, ","), "] ", tensor.flat_begin, "\n");
  }
  return text;
}

}  // namespace zerofleet::zero
