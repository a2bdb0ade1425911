// Momentum, exchange, Newton-Schulz; see muon_matrices.h.
#include "worker/zero/muon_matrices.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace zerofleet::zero {
namespace {

constexpr char kExchangedRow[] = "muon unit", kMatrixRow[] = "muon matrix", kNextRow[] = "muon next matrix",
               kGramRow[] = "muon gram matrices", kSumRow[] = "muon sum of squares";
// Makes an update as large as AdamW's, so that one learning rate serves both (Liu et al. 2025, "Muon is scalable").
constexpr double kSizeOfAdamW = 0.2;

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
  add(kSumRow, sizeof(double));
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
  memory_.sum = arena.TakeAs<double>(kSumRow);
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

void MuonMatrices::Direct(const MuonPiece& piece, MuonDirection direction) {
  ForRuns(piece, /*of_matrices=*/true, [&](const Run& run, int64_t at) {
    const device::Tensor part = Exchanged(*run.matrix, parts_.layout.part().index);
    device_.ops().MuonDirection(stream_, {.count = run.end - run.begin,
                                          .control = piece.control,
                                          .gradient = piece.gradient.Offset(at),
                                          .momentum = FloatsAt(piece.states, kMomentum, at),
                                          .ahead = direction == MuonDirection::kAhead,
                                          .to = part.Offset(run.begin - run.matrix->flat_begin)});
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
    in_data_ = parts_.communicator->AllGather({}, own, padded, name, Reached());
    ZF_RETURN_IF_ERROR(Follow(in_data_));
  }
  if (layout.part().count == 1) return absl::OkStatus();
  const int64_t bytes = padded * device::DTypeBytes(exchanged_.dtype);
  in_tensor_ = parts_.tensor->AllGatherBytes(nullptr, exchanged_.data, bytes, name, Reached());
  return Follow(in_tensor_);
}

// The host's work is done when it is given, and no other device's stream can wait for its events, nor it for theirs.
std::shared_ptr<device::Event> MuonMatrices::Reached() {
  return device_.host_addressable() ? nullptr : stream_.Record();
}

absl::Status MuonMatrices::Follow(const collective::Communicator::Pending& exchange) {
  return device_.host_addressable() ? exchange.Wait() : exchange.MakeStreamWait(stream_);
}

absl::Status MuonMatrices::AwaitExchange() const {
  ZF_RETURN_IF_ERROR(in_data_.Wait());
  return in_tensor_.Wait();
}

// A part consists of runs of the whole that are equally long and equally far apart.
void MuonMatrices::MovePart(const model::TensorSpec& matrix, int index, float* part, bool out) {
  const std::vector<model::WholeRun> runs =
      model::RunsOfPart(matrix.whole_shape, matrix.cut, {index, parts_.layout.part().count}, 0, matrix.elements());
  const auto count = static_cast<int64_t>(runs.size());
  const int64_t length = runs[0].elements;
  ZF_CHECK(count * length == matrix.elements());
  const int64_t stride = count > 1 ? runs[1].whole_begin - runs[0].whole_begin : length;
  device::ColumnsArguments move{.m = count,
                                .n = length,
                                .from = {part, device::DType::kF32},
                                .from_columns = length,
                                .to = {matrix_, device::DType::kF32},
                                .to_columns = stride,
                                .to_first = runs[0].whole_begin};
  if (out) {
    std::swap(move.from, move.to);
    std::swap(move.from_columns, move.to_columns);
    std::swap(move.from_first, move.to_first);
  }
  device_.ops().Columns(stream_, move);
}

const float* MuonMatrices::OrthogonalOf(const model::TensorSpec& matrix) {
  const model::ModelPart& mine = parts_.layout.part();
  // Newton-Schulz's scratch memory holds parts before and after it.
  float* const part = mine.count == 1 ? matrix_ : memory_.next;
  if (orthogonal_ == &matrix) return part;
  for (int index = 0; index < mine.count; ++index) {
    device_.ops().Convert(stream_, matrix.elements(), Exchanged(matrix, index), {part, device::DType::kF32});
    if (mine.count > 1) MovePart(matrix, index, part, /*out=*/false);
  }
  optim::NewtonSchulz(device_.ops(), stream_, matrix.whole_shape[0], matrix.whole_shape[1], matrix_, memory_);
  if (mine.count > 1) MovePart(matrix, mine.index, part, /*out=*/true);
  orthogonal_ = &matrix;
  return part;
}

float MuonMatrices::ScaleOf(const Run& run, double learning_rate) {
  const int64_t longer = std::max(run.matrix->whole_shape[0], run.matrix->whole_shape[1]);
  return static_cast<float>(learning_rate * kSizeOfAdamW * std::sqrt(longer));
}

void MuonMatrices::MoveWeights(const MuonPiece& piece) {
  ForRuns(piece, /*of_matrices=*/true, [&](const Run& run, int64_t at) {
    const int64_t count = run.end - run.begin;
    float* const master = FloatsAt(piece.states, 0, at);
    device_.ops().MuonMove(stream_, {.count = count,
                                     .control = piece.control,
                                     .decays = run.matrix->decay,
                                     .scale = ScaleOf(run, piece.learning_rate),
                                     .direction = OrthogonalOf(run),
                                     .from = master,
                                     .to = {master, device::DType::kF32}});
    if (!parts_.layout.optimizer().averages()) return;
    device_.ops().Average(stream_, {.count = count,
                                    .control = piece.control,
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
    device_.ops().MuonMove(stream_, {.count = run.end - run.begin,
                                     .control = piece.control,
                                     .decays = false,
                                     .scale = ScaleOf(run, piece.learning_rate),
                                     .direction = OrthogonalOf(run),
                                     .from = FloatsAt(piece.states, 0, at),
                                     .to = piece.parameter.Offset(at)});
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
                                     .control = piece.control,
                                     .gradient = piece.gradient.Offset(at),
                                     .states = states,
                                     .parameter = piece.parameter.Offset(at)});
  });
}

}  // namespace zerofleet::zero
