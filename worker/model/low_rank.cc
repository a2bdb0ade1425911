// Adapters forward and backward; see low_rank.h.
#include "worker/model/low_rank.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace zerofleet::model {
namespace {

// Calls `body(first, count)` for pieces of m tokens.
void ForPieces(int64_t m, const std::function<void(int64_t first, int64_t count)>& body) {
  for (int64_t first = 0; first < m; first += kAdapterTokens) body(first, std::min(kAdapterTokens, m - first));
}

}  // namespace

void LowRank::Declare(const std::string& name, int64_t rows, int64_t columns, const Cut& cut, int64_t first,
                      Declaration& declaration) {
  declaration.Names(name);
  if (!declaration.sizes().HasAdapter(name)) return;
  const bool sums = declaration.parts() > 1;
  const bool by_rows = cut.along == Cut::Along::kRows;
  const int64_t parts = declaration.parts(), n = by_rows ? rows / parts : rows;
  Adapter adapter = {.first = first, .n = n, .a = 0, .b = 0, .a_sums = -1, .b_sums = -1};
  const auto declare = [&](const char* which, std::vector<int64_t> shape, Init init, const Cut& of, int64_t* sums_at) {
    if (sums && of.along == Cut::Along::kNothing) *sums_at = declaration.AdapterSums(ElementsOf(shape));
    return declaration.AdapterTensor({.name = absl::StrCat(name, ".", which, ".weight"),
                                      .shape = std::move(shape),
                                      .decay = true,
                                      .init = init,
                                      .cut = of});
  };
  adapter.a = declare("lora_A", {rank_, columns}, Init::kAdapter, by_rows ? Cut{} : cut, &adapter.a_sums);
  adapter.b = declare("lora_B", {rows, rank_}, Init::kZeros, by_rows ? cut : Cut{}, &adapter.b_sums);
  declaration.AdapterColumns(std::max(n, k_));
  adapters_.push_back(adapter);
  ZF_CHECK(adapters_.size() <= Declaration::kMostAdapters);
}

device::Tensor LowRank::Reduced(const UnitPass& pass, size_t adapter) const {
  const Pass& p = pass.pass;
  return p.scratch.adapter_gradients.Offset(static_cast<int64_t>(adapter) * AdapterGradientElements(p.m(), rank_));
}

float* LowRank::Gradient(const UnitPass& pass, int64_t at, int64_t sums) const {
  return sums < 0 ? pass.dadapters->sums() + at : pass.pass.scratch.adapter_sums + sums;
}

void LowRank::Add(const UnitPass& pass, int64_t m, device::Tensor x, device::Tensor y, int64_t y_columns) const {
  const Pass& p = pass.pass;
  const device::Tensor reduced = p.scratch.adapter_reduced, wide = p.scratch.adapter_wide;
  for (const Adapter& adapter : adapters_) {
    ForPieces(m, [&](int64_t first, int64_t count) {
      p.ops.LinearForward(p.stream, {.m = count,
                                     .n = rank_,
                                     .k = k_,
                                     .x = x.Offset(first * k_),
                                     .w = pass.adapters.Offset(adapter.a),
                                     .y = reduced});
      p.ops.LinearForward(
          p.stream,
          {.m = count, .n = adapter.n, .k = rank_, .x = reduced, .w = pass.adapters.Offset(adapter.b), .y = wide});
      p.ops.Columns(p.stream, {.m = count,
                               .n = adapter.n,
                               .from = wide,
                               .from_columns = adapter.n,
                               .scale = scale_,
                               .add = true,
                               .to = y.Offset(first * y_columns),
                               .to_columns = y_columns,
                               .to_first = adapter.first});
    });
  }
}

void LowRank::BackwardWeights(const UnitPass& pass, device::Tensor dy, int64_t dy_columns, device::Tensor x) const {
  const Pass& p = pass.pass;
  const device::Tensor reduced = p.scratch.adapter_reduced, wide = p.scratch.adapter_wide;
  for (size_t i = 0; i < adapters_.size(); ++i) {
    const Adapter& adapter = adapters_[i];
    const device::Tensor a = pass.adapters.Offset(adapter.a), b = pass.adapters.Offset(adapter.b);
    ForPieces(p.m(), [&](int64_t first, int64_t count) {
      const device::Tensor x_piece = x.Offset(first * k_), h = Reduced(pass, i).Offset(first * rank_);
      p.ops.Columns(p.stream, {.m = count,
                               .n = adapter.n,
                               .from = dy.Offset(first * dy_columns),
                               .from_columns = dy_columns,
                               .from_first = adapter.first,
                               .scale = scale_,
                               .to = wide,
                               .to_columns = adapter.n});
      p.ops.LinearForward(p.stream, {.m = count, .n = rank_, .k = k_, .x = x_piece, .w = a, .y = reduced});
      p.ops.LinearBackwardWeight(p.stream, {.m = count,
                                            .n = adapter.n,
                                            .k = rank_,
                                            .dy = wide,
                                            .x = reduced,
                                            .dw = Gradient(pass, adapter.b, adapter.b_sums)});
      p.ops.LinearBackwardInput(p.stream, {.m = count, .n = adapter.n, .k = rank_, .dy = wide, .w = b, .dx = h});
      p.ops.LinearBackwardWeight(
          p.stream,
          {.m = count, .n = rank_, .k = k_, .dy = h, .x = x_piece, .dw = Gradient(pass, adapter.a, adapter.a_sums)});
    });
  }
}

void LowRank::AddInput(const UnitPass& pass, device::Tensor dx, device::Tensor before) const {
  const Pass& p = pass.pass;
  const device::Tensor wide = p.scratch.adapter_wide;
  for (size_t i = 0; i < adapters_.size(); ++i) {
    const device::Tensor a = pass.adapters.Offset(adapters_[i].a);
    ForPieces(p.m(), [&](int64_t first, int64_t count) {
      const device::Tensor h = Reduced(pass, i).Offset(first * rank_);
      if (before) {
        p.ops.LinearBackwardInputGelu(
            p.stream,
            {.m = count, .n = rank_, .k = k_, .dy = h, .w = a, .before = before.Offset(first * k_), .dbefore = wide});
      } else {
        p.ops.LinearBackwardInput(p.stream, {.m = count, .n = rank_, .k = k_, .dy = h, .w = a, .dx = wide});
      }
      p.ops.Columns(p.stream, {.m = count,
                               .n = k_,
                               .from = wide,
                               .from_columns = k_,
                               .add = true,
                               .to = dx.Offset(first * k_),
                               .to_columns = k_});
    });
  }
}

absl::Status SumAdapterGradients(const UnitPass& pass, const Declaration& block) {
  const Pass& p = pass.pass;
  if (block.adapter_sums() == 0) return absl::OkStatus();
  ZF_RETURN_IF_ERROR(p.residual.group()->AllReduce(p.stream, {p.scratch.adapter_sums, device::DType::kF32},
                                                   block.adapter_sums(), pass.unit));
  int64_t at = 0, sums = 0;
  for (const DeclaredTensor& tensor : block.adapter_tensors()) {
    const int64_t elements = ElementsOf(ShapeOfPart(tensor.shape, tensor.cut, {.index = 0, .count = block.parts()}));
    if (tensor.cut.along == Cut::Along::kNothing) {
      p.ops.Accumulate(p.stream, elements, {p.scratch.adapter_sums + sums, device::DType::kF32},
                       pass.dadapters->sums() + at);
      sums += elements;
    }
    at += elements;
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::model
