// Momentum, exchange, Newton-Schulz; see muon_updater.h.
#include "worker/zero/muon_updater.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status.h"

namespace zerofleet::zero {
namespace {

constexpr char kExchangedRow[] = "muon unit", kMatrixRow[] = "muon matrix", kNextRow[] = "muon next matrix",
               kGramRow[] = "muon gram matrices";
// So that an update has the size of AdamW's, and one learning rate serves both (Liu et al. 2025, "Muon is scalable").
constexpr double kSizeOfAdamW = 0.2;

float Read(const device::Tensor& values, int64_t i) {
  switch (values.dtype) {
    case device::DType::kF32: return static_cast<const float*>(values.data)[i];
    case device::DType::kBF16: return device::ToFloat(static_cast<const device::BF16*>(values.data)[i]);
    case device::DType::kF16: return device::ToFloat(static_cast<const device::F16*>(values.data)[i]);
  }
  return 0;
}

void Store(const device::Tensor& values, int64_t i, float value) {
  switch (values.dtype) {
    case device::DType::kF32: static_cast<float*>(values.data)[i] = value; break;
    case device::DType::kBF16:
      static_cast<device::BF16*>(values.data)[i] = device::FromFloat<device::BF16>(value);
      break;
    case device::DType::kF16: static_cast<device::F16*>(values.data)[i] = device::FromFloat<device::F16>(value); break;
  }
}

}  // namespace

std::vector<memory::MemoryRow> MuonUpdater::Rows(const ZeroLayout& layout) {
  std::vector<memory::MemoryRow> rows = TrainingState::Rows(layout);
  const auto add = [&rows](const char* name, int64_t bytes) {
    rows.push_back({memory::Space::kDevice, memory::Category::kBuffers, name, bytes});
  };
  const ZeroLayout::WholeMatrices& matrices = layout.whole_matrices();
  constexpr int64_t kFloat = sizeof(float);
  add(kExchangedRow, matrices.largest_unit * device::DTypeBytes(layout.options().dtype));
  add(kMatrixRow, matrices.largest * kFloat);
  add(kNextRow, matrices.largest * kFloat);
  add(kGramRow, 2 * matrices.largest_gram * kFloat);
  return rows;
}

MuonUpdater::MuonUpdater(const UpdaterParts& parts)
    : DeviceUpdater(parts),
      parts_(parts),
      exchanged_{parts.device_arena.Take(kExchangedRow), parts.layout.options().dtype},
      matrix_(parts.device_arena.TakeAs<float>(kMatrixRow)),
      memory_{.next = parts.device_arena.TakeAs<float>(kNextRow),
              .gram = parts.device_arena.TakeAs<float>(kGramRow),
              .squared = nullptr} {
  ZF_CHECK(parts.layout.part().count == 1);
  memory_.squared = memory_.gram + parts.layout.whole_matrices().largest_gram;
  for (int u = 0; u < parts.layout.units(); ++u) runs_.push_back(RunsOf(u));
}

std::vector<MuonUpdater::Run> MuonUpdater::RunsOf(int unit) const {
  const ZeroLayout::Piece piece = parts_.layout.Updated(unit);
  std::vector<Run> runs;
  for (const model::TensorSpec& tensor : parts_.spec.tensors()) {
    const int64_t begin = std::max(piece.flat_begin, tensor.flat_begin);
    const int64_t end = std::min(piece.flat_end, tensor.flat_end);
    if (begin >= end) continue;
    const bool whole = ZeroLayout::IsWholeMatrix(tensor);
    if (!whole && !runs.empty() && runs.back().matrix == nullptr) {
      runs.back().flat_end = end;
    } else {
      runs.push_back({begin, end, whole ? &tensor : nullptr});
    }
  }
  return runs;
}

absl::Status MuonUpdater::Update(const device::StepControl* control, device::Tensor gradients,
                                 device::Tensor parameters, bool delayed) {
  ZF_CHECK(!delayed);
  // In a dry run nothing has values, and what is exchanged is what counts.
  const bool computes = parts_.device.host_addressable();
  for (int u = 0; u < parts_.layout.units(); ++u) {
    const ZeroLayout::Piece piece = parts_.layout.Updated(u);
    const Step step{*control, piece, parts_.layout.partition().unit(u).flat_begin, gradients, parameters};
    const bool updates = computes && control->apply != 0;
    if (updates && piece.elements() > 0) state().gate().Await(piece.state_offset, piece.elements());
    for (const Run& run : runs_[u]) {
      if (updates && run.matrix != nullptr) AddMomentum(step, run);
    }
    ZF_RETURN_IF_ERROR(Exchange(u));
    if (!updates) continue;
    for (const Run& run : runs_[u]) {
      if (run.matrix != nullptr) {
        UpdateMatrix(step, run);
      } else {
        UpdateRest(u, step, run);
      }
    }
  }
  return absl::OkStatus();
}

// As torch.optim.Muon with nesterov: momentum moves towards the gradient, and the direction from the gradient towards
// it.
void MuonUpdater::AddMomentum(const Step& step, const Run& run) {
  const device::UpdateFactors& factors = step.control.factors;
  const int64_t from = run.flat_begin - step.piece.flat_begin;
  float* const momentum = static_cast<float*>(state().At(step.piece.state_offset + from)[1].data);
  const device::Tensor gradient = step.gradients.Offset(step.piece.gradient_offset + from);
  const device::Tensor direction = exchanged_.Offset(run.flat_begin - step.unit_begin);
  for (int64_t i = 0; i < run.flat_end - run.flat_begin; ++i) {
    const float g = Read(gradient, i) * factors.gradient_scale;
    momentum[i] += (1.0f - factors.momentum) * (g - momentum[i]);
    Store(direction, i, g + factors.momentum * (momentum[i] - g));
  }
}

absl::Status MuonUpdater::Exchange(int unit) {
  if (!parts_.layout.stage().split_optimizer || !parts_.layout.whole_matrices().in_unit[unit]) return absl::OkStatus();
  return parts_.communicator
      ->AllGather({}, exchanged_, parts_.layout.partition().PaddedElements(unit),
                  parts_.layout.partition().unit(unit).name, parts_.stream.Record())
      .Wait();
}

void MuonUpdater::UpdateMatrix(const Step& step, const Run& run) {
  const int64_t rows = run.matrix->shape[0], columns = run.matrix->shape[1];
  device::Ops& ops = parts_.device.ops();
  ops.Convert(parts_.stream, rows * columns, exchanged_.Offset(run.matrix->flat_begin - step.unit_begin),
              {matrix_, device::DType::kF32});
  optim::NewtonSchulz(ops, parts_.stream, rows, columns, matrix_, memory_);
  const int64_t from = run.flat_begin - step.piece.flat_begin;
  float* const master = static_cast<float*>(state().At(step.piece.state_offset + from)[0].data);
  const device::Tensor parameter = step.parameters.Offset(step.piece.parameter_offset + from);
  const float* const direction = matrix_ + (run.flat_begin - run.matrix->flat_begin);
  const auto size = static_cast<float>(learning_rate_ * kSizeOfAdamW * std::sqrt(std::max(rows, columns)));
  const float decay = run.matrix->decay ? step.control.factors.decay : 1.0f;
  for (int64_t i = 0; i < run.flat_end - run.flat_begin; ++i) {
    master[i] = master[i] * decay - size * direction[i];
    Store(parameter, i, master[i]);
  }
  if (!parts_.layout.optimizer().averages()) return;
  ops.Average(parts_.stream, {.count = run.flat_end - run.flat_begin,
                              .control = &step.control,
                              .weights = master,
                              .average = static_cast<float*>(state().At(step.piece.state_offset + from).back().data)});
}

void MuonUpdater::UpdateRest(int unit, const Step& step, const Run& run) {
  const int64_t from = run.flat_begin - step.piece.flat_begin, count = run.flat_end - run.flat_begin;
  const std::vector<device::DecaySegment> segments = state().Segments(unit, from, count);
  parts_.layout.optimizer().Apply(parts_.device.ops(), parts_.stream,
                                  {.segments = segments,
                                   .control = &step.control,
                                   .gradient = step.gradients.Offset(step.piece.gradient_offset + from),
                                   .states = state().At(step.piece.state_offset + from),
                                   .parameter = step.parameters.Offset(step.piece.parameter_offset + from)});
}

}  // namespace zerofleet::zero
