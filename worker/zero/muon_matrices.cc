// Momentum, exchange, Newton-Schulz; see muon_matrices.h.
#include "worker/zero/muon_matrices.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace zerofleet::zero {
namespace {

constexpr char kExchangedRow[] = "muon unit", kMatrixRow[] = "muon matrix", kNextRow[] = "muon next matrix",
               kGramRow[] = "muon gram matrices";
// Makes an update as large as AdamW's, so that one learning rate serves both (Liu et al. 2025, "Muon is scalable").
constexpr double kSizeOfAdamW = 0.2;

float ReadValue(const device::Tensor& values, int64_t i) {
  switch (values.dtype) {
    case device::DType::kF32: return static_cast<const float*>(values.data)[i];
    case device::DType::kBF16: return device::ToFloat(static_cast<const device::BF16*>(values.data)[i]);
    case device::DType::kF16: return device::ToFloat(static_cast<const device::F16*>(values.data)[i]);
  }
  return 0;
}

void StoreValue(const device::Tensor& values, int64_t i, float value) {
  switch (values.dtype) {
    case device::DType::kF32: static_cast<float*>(values.data)[i] = value; break;
    case device::DType::kBF16:
      static_cast<device::BF16*>(values.data)[i] = device::FromFloat<device::BF16>(value);
      break;
    case device::DType::kF16: static_cast<device::F16*>(values.data)[i] = device::FromFloat<device::F16>(value); break;
  }
}

memory::Space SpaceOf(const ZeroLayout& layout) {
  return layout.offloads() ? memory::Space::kHost : memory::Space::kDevice;
}

float* FloatsAt(const optim::StateTensors& states, size_t vector, int64_t at) {
  return static_cast<float*>(states[vector].data) + at;
}

}  // namespace

std::vector<memory::MemoryRow> MuonMatrices::Rows(const ZeroLayout& layout) {
  std::vector<memory::MemoryRow> rows;
  const auto add = [&](const char* name, int64_t bytes) {
    rows.push_back({SpaceOf(layout), memory::Category::kBuffers, name, bytes});
  };
  const ZeroLayout::WholeMatrices& matrices = layout.whole_matrices();
  constexpr int64_t kFloat = sizeof(float);
  add(kExchangedRow, layout.part().count * matrices.largest_unit * device::DTypeBytes(layout.options().dtype));
  add(kMatrixRow, matrices.largest * kFloat);
  add(kNextRow, matrices.largest * kFloat);
  add(kGramRow, 2 * matrices.largest_gram * kFloat);
  return rows;
}

MuonMatrices::MuonMatrices(const UpdaterParts& parts, const TrainingState& state, device::Device& device,
                           device::Stream& stream)
    : parts_(parts), state_(state), device_(device), stream_(stream), tensors_(parts.layout.units()) {
  memory::Arena& arena = SpaceOf(parts.layout) == memory::Space::kHost ? parts.host_arena : parts.device_arena;
  exchanged_ = {arena.Take(kExchangedRow), parts.layout.options().dtype};
  matrix_ = arena.TakeAs<float>(kMatrixRow);
  memory_.next = arena.TakeAs<float>(kNextRow);
  memory_.gram = arena.TakeAs<float>(kGramRow);
  memory_.squared = memory_.gram + parts.layout.whole_matrices().largest_gram;
  for (const model::TensorSpec& tensor : parts.spec.tensors()) tensors_[tensor.unit].push_back(&tensor);
}

std::vector<MuonMatrices::Run> MuonMatrices::RunsOf(int unit, int64_t begin, int64_t count) const {
  const int64_t flat_begin = parts_.layout.Updated(unit).flat_begin + begin;
  std::vector<Run> runs;
  for (const model::TensorSpec* const tensor : tensors_[unit]) {
    const int64_t from = std::max(flat_begin, tensor->flat_begin), to = std::min(flat_begin + count, tensor->flat_end);
    if (from >= to) continue;
    const bool whole = ZeroLayout::IsWholeMatrix(*tensor);
    if (!whole && !runs.empty() && runs.back().matrix == nullptr) {
      runs.back().end = to;
    } else {
      runs.push_back({from, to, whole ? tensor : nullptr});
    }
  }
  return runs;
}

void MuonMatrices::ForRuns(const MuonPiece& piece, bool of_matrices, const Use& use) const {
  const int64_t first = parts_.layout.Updated(piece.unit).flat_begin + piece.begin;
  for (const Run& run : RunsOf(piece.unit, piece.begin, piece.count)) {
    if ((run.matrix != nullptr) == of_matrices) use(run, run.begin - first);
  }
}

device::Tensor MuonMatrices::Exchanged(const model::TensorSpec& tensor, int part) const {
  const coordinator::PartitionMap& units = parts_.layout.partition();
  const int64_t in_unit = tensor.flat_begin - units.unit(tensor.unit).flat_begin;
  return exchanged_.Offset(part * units.PaddedElements(tensor.unit) + in_unit);
}

// As torch.optim.Muon with nesterov: the momentum moves towards the gradient, and the direction is the gradient moved
// towards the momentum.
void MuonMatrices::Direct(const MuonPiece& piece, MuonDirection direction) {
  const device::UpdateFactors& factors = piece.control.factors;
  ForRuns(piece, /*of_matrices=*/true, [&](const Run& run, int64_t at) {
    float* const momentum = FloatsAt(piece.states, kMomentum, at);
    const device::Tensor gradient = piece.gradient.Offset(at);
    const device::Tensor to =
        Exchanged(*run.matrix, parts_.layout.part().index).Offset(run.begin - run.matrix->flat_begin);
    for (int64_t i = 0; i < run.end - run.begin; ++i) {
      const float g = ReadValue(gradient, i) * factors.gradient_scale;
      const float moved = momentum[i] + (1.0f - factors.momentum) * (g - momentum[i]);
      if (direction == MuonDirection::kOfStep) momentum[i] = moved;
      StoreValue(to, i, g + factors.momentum * (moved - g));
    }
  });
}

absl::Status MuonMatrices::Exchange(int unit) {
  orthogonal_ = nullptr;
  if (!InUnit(unit)) return absl::OkStatus();
  const ZeroLayout& layout = parts_.layout;
  const int64_t padded = layout.partition().PaddedElements(unit);
  const std::string& name = layout.partition().unit(unit).name;
  if (layout.stage().split_optimizer) {
    const device::Tensor own = exchanged_.Offset(layout.part().index * padded);
    ZF_RETURN_IF_ERROR(parts_.communicator->AllGather({}, own, padded, name, stream_.Record()).Wait());
  }
  if (layout.part().count == 1) return absl::OkStatus();
  const int64_t bytes = padded * device::DTypeBytes(exchanged_.dtype);
  return parts_.tensor->AllGatherBytes(nullptr, exchanged_.data, bytes, name, stream_.Record()).Wait();
}

const float* MuonMatrices::OrthogonalOf(const model::TensorSpec& matrix) {
  if (orthogonal_ == &matrix) return matrix_;
  device::Ops& ops = device_.ops();
  const int parts = parts_.layout.part().count;
  for (int part = 0; part < parts; ++part) {
    const device::Tensor from = Exchanged(matrix, part);
    for (const model::WholeRun& run :
         model::RunsOfPart(matrix.whole_shape, matrix.cut, {part, parts}, 0, matrix.elements())) {
      ops.Convert(stream_, run.elements, from.Offset(run.begin), {matrix_ + run.whole_begin, device::DType::kF32});
    }
  }
  optim::NewtonSchulz(ops, stream_, matrix.whole_shape[0], matrix.whole_shape[1], matrix_, memory_);
  orthogonal_ = &matrix;
  return matrix_;
}

void MuonMatrices::ForElements(const Run& run, const Move& move) {
  const float* const orthogonal = OrthogonalOf(*run.matrix);
  const int64_t begin = run.begin - run.matrix->flat_begin, end = run.end - run.matrix->flat_begin;
  for (const model::WholeRun& part :
       model::RunsOfPart(run.matrix->whole_shape, run.matrix->cut, parts_.layout.part(), begin, end)) {
    move(part.begin - begin, orthogonal + part.whole_begin, part.elements);
  }
}

float MuonMatrices::ScaleOf(const Run& run, double learning_rate) {
  const int64_t longer = std::max(run.matrix->whole_shape[0], run.matrix->whole_shape[1]);
  return static_cast<float>(learning_rate * kSizeOfAdamW * std::sqrt(longer));
}

void MuonMatrices::MoveWeights(const MuonPiece& piece) {
  ForRuns(piece, /*of_matrices=*/true, [&](const Run& run, int64_t at) {
    float* const master = FloatsAt(piece.states, 0, at);
    const float scale = ScaleOf(run, piece.learning_rate);
    const float decay = run.matrix->decay ? piece.control.factors.decay : 1.0f;
    ForElements(run, [&](int64_t first, const float* direction, int64_t count) {
      float* const weights = master + first;
      for (int64_t i = 0; i < count; ++i) weights[i] = weights[i] * decay - scale * direction[i];
    });
    if (!parts_.layout.optimizer().averages()) return;
    device_.ops().Average(stream_, {.count = run.end - run.begin,
                                    .control = &piece.control,
                                    .weights = master,
                                    .average = FloatsAt(piece.states, piece.states.size() - 1, at)});
  });
}

void MuonMatrices::Update(const MuonPiece& piece) {
  MoveWeights(piece);
  ForRuns(piece, /*of_matrices=*/true, [&](const Run& run, int64_t at) {
    device_.ops().Convert(stream_, run.end - run.begin, piece.states[0].Offset(at), piece.parameter.Offset(at));
  });
  UpdateRest(piece);
}

void MuonMatrices::UpdateAhead(const MuonPiece& piece) {
  ForRuns(piece, /*of_matrices=*/true, [&](const Run& run, int64_t at) {
    const float scale = ScaleOf(run, piece.learning_rate);
    ForElements(run, [&](int64_t first, const float* direction, int64_t count) {
      const float* const weights = FloatsAt(piece.states, 0, at + first);
      const device::Tensor parameters = piece.parameter.Offset(at + first);
      for (int64_t i = 0; i < count; ++i) StoreValue(parameters, i, weights[i] - scale * direction[i]);
    });
  });
  UpdateRest(piece);
}

void MuonMatrices::UpdateRest(const MuonPiece& piece) {
  ForRuns(piece, /*of_matrices=*/false, [&](const Run& run, int64_t at) {
    const std::vector<device::DecaySegment> segments =
        state_.Segments(piece.unit, piece.begin + at, run.end - run.begin);
    optim::StateTensors states;
    for (const device::Tensor& vector : piece.states) states.push_back(vector.Offset(at));
    parts_.layout.optimizer().Apply(device_.ops(), stream_,
                                    {.segments = segments,
                                     .control = &piece.control,
                                     .gradient = piece.gradient.Offset(at),
                                     .states = states,
                                     .parameter = piece.parameter.Offset(at)});
  });
}

}  // namespace zerofleet::zero
