// The figures of each op: the floating-point operations of its products, and the bytes of its inputs and outputs, each
// counted once.
#include "worker/device/profile/profiled_ops.h"

#include <utility>

#include "base/clock.h"
#include "worker/device/device.h"

namespace zerofleet::device {
namespace {

template <typename... Sizes>
double Times(Sizes... sizes) {
  return (1.0 * ... * static_cast<double>(sizes));
}

double ElementBytes(const Tensor& tensor) { return static_cast<double>(DTypeBytes(tensor.dtype)); }

// Bytes per element of a weight's gradient that are read and written.
double GradientBytes(const LinearBackwardWeightArguments& p) {
  return p.written ? ElementBytes(p.written) : 2 * ElementBytes(p.gradient());
}

double Tokens(const AttentionShape& shape) { return Times(shape.batch, shape.time); }

// The floating-point operations of one product over all pairs of a query and a key that the query sees.
double QueryKeyPairs(const AttentionShape& shape) {
  return Times(shape.batch, shape.heads, shape.time, shape.time, shape.head_size);
}

double Elements(std::span<const DecaySegment> segments) {
  double elements = 0;
  for (const DecaySegment& segment : segments) elements += static_cast<double>(segment.count);
  return elements;
}

}  // namespace

template <class Op>
void ProfiledOps::Time(Stream& stream, std::string_view name, double flops, double bytes, const Op& op) {
  const double began = Clock::Real().MonotonicSeconds();
  if (where_ == Where::kHost) {
    op();
    sink_.Add(name,
              {.began = began, .seconds = Clock::Real().MonotonicSeconds() - began, .flops = flops, .bytes = bytes});
    return;
  }
  std::shared_ptr<Event> before = stream.RecordTime();
  op();
  absl::MutexLock lock(&mutex_);
  behind_host_.push_back(
      {name, {.began = began, .flops = flops, .bytes = bytes}, std::move(before), stream.RecordTime()});
  for (; !behind_host_.empty(); behind_host_.pop_front()) {
    Enqueued& first = behind_host_.front();
    const absl::StatusOr<bool> reached = first.after->Reached();
    if (!reached.ok() || !*reached) return;
    first.call.seconds = first.after->SecondsSince(*first.before);
    sink_.Add(first.op, first.call);
  }
}

void ProfiledOps::LinearForward(Stream& stream, const LinearForwardArguments& p) {
  Time(stream, "LinearForward", 2 * Times(p.m, p.n, p.k),
       ElementBytes(p.x) * (Times(p.m, p.k) + Times(p.n, p.k) + Times(p.m, p.n) * (p.residual ? 2 : 1)),
       [&] { ops_.LinearForward(stream, p); });
}

void ProfiledOps::LinearGeluForward(Stream& stream, const LinearGeluForwardArguments& p) {
  Time(stream, "LinearGeluForward", 2 * Times(p.m, p.n, p.k),
       ElementBytes(p.x) * (Times(p.m, p.k) + Times(p.n, p.k) + 2 * Times(p.m, p.n)),
       [&] { ops_.LinearGeluForward(stream, p); });
}

void ProfiledOps::LinearBackwardInput(Stream& stream, const LinearBackwardInputArguments& p) {
  Time(stream, "LinearBackwardInput", 2 * Times(p.m, p.n, p.k),
       ElementBytes(p.dy) * (Times(p.m, p.n) + Times(p.n, p.k) + Times(p.m, p.k)),
       [&] { ops_.LinearBackwardInput(stream, p); });
}

void ProfiledOps::LinearBackwardInputGelu(Stream& stream, const LinearBackwardInputGeluArguments& p) {
  Time(stream, "LinearBackwardInputGelu", 2 * Times(p.m, p.n, p.k),
       ElementBytes(p.dy) * (Times(p.m, p.n) + Times(p.n, p.k) + 2 * Times(p.m, p.k)),
       [&] { ops_.LinearBackwardInputGelu(stream, p); });
}

void ProfiledOps::LinearBackwardWeight(Stream& stream, const LinearBackwardWeightArguments& p) {
  Time(stream, "LinearBackwardWeight", 2 * Times(p.m, p.n, p.k),
       ElementBytes(p.x) * (Times(p.m, p.n) + Times(p.m, p.k)) + GradientBytes(p) * Times(p.n, p.k),
       [&] { ops_.LinearBackwardWeight(stream, p); });
}

void ProfiledOps::GeluForward(Stream& stream, int64_t count, Tensor x, Tensor y) {
  Time(stream, "GeluForward", 0, 2 * ElementBytes(x) * Times(count), [&] { ops_.GeluForward(stream, count, x, y); });
}

void ProfiledOps::LayerNormForward(Stream& stream, const LayerNormForwardArguments& p) {
  Time(stream, "LayerNormForward", 0, 2 * ElementBytes(p.x) * Times(p.m, p.c),
       [&] { ops_.LayerNormForward(stream, p); });
}

void ProfiledOps::LayerNormBackward(Stream& stream, const LayerNormBackwardArguments& p) {
  Time(stream, "LayerNormBackward", 0, 4 * ElementBytes(p.x) * Times(p.m, p.c),
       [&] { ops_.LayerNormBackward(stream, p); });
}

void ProfiledOps::AttentionForward(Stream& stream, const AttentionForwardArguments& p) {
  Time(stream, "AttentionForward", 2 * QueryKeyPairs(p.shape),
       ElementBytes(p.qkv) * Tokens(p.shape) * (p.shape.columns() + p.shape.heads * p.shape.head_size),
       [&] { ops_.AttentionForward(stream, p); });
}

void ProfiledOps::AttentionBackward(Stream& stream, const AttentionBackwardArguments& p) {
  Time(stream, "AttentionBackward", 5 * QueryKeyPairs(p.shape),
       2 * ElementBytes(p.qkv) * Tokens(p.shape) * (p.shape.columns() + p.shape.heads * p.shape.head_size),
       [&] { ops_.AttentionBackward(stream, p); });
}

void ProfiledOps::EmbeddingForward(Stream& stream, const EmbeddingForwardArguments& p) {
  Time(stream, "EmbeddingForward", 0, 2 * ElementBytes(p.x) * Times(p.batch, p.time, p.c),
       [&] { ops_.EmbeddingForward(stream, p); });
}

void ProfiledOps::EmbeddingBackward(Stream& stream, const EmbeddingBackwardArguments& p) {
  Time(stream, "EmbeddingBackward", 0, (ElementBytes(p.dx) + 8) * Times(p.batch, p.time, p.c),
       [&] { ops_.EmbeddingBackward(stream, p); });
}

void ProfiledOps::CrossEntropy(Stream& stream, const CrossEntropyArguments& p) {
  Time(stream, "CrossEntropy", (p.dx ? 6 : 2) * Times(p.m, p.c, p.vocab),
       ElementBytes(p.x) * (Times(p.m, p.c) * (p.dx ? 2 : 1) + Times(p.vocab, p.c)) +
           (p.dw == nullptr ? 0 : 8 * Times(p.vocab, p.c)),
       [&] { ops_.CrossEntropy(stream, p); });
}

void ProfiledOps::Convert(Stream& stream, int64_t count, Tensor from, Tensor to) {
  Time(stream, "Convert", 0, (ElementBytes(from) + ElementBytes(to)) * Times(count),
       [&] { ops_.Convert(stream, count, from, to); });
}

void ProfiledOps::Accumulate(Stream& stream, int64_t count, Tensor from, float* accumulator) {
  Time(stream, "Accumulate", 0, (ElementBytes(from) + 8) * Times(count),
       [&] { ops_.Accumulate(stream, count, from, accumulator); });
}

void ProfiledOps::SumSquares(Stream& stream, int64_t count, Tensor x, double* sum) {
  Time(stream, "SumSquares", 0, ElementBytes(x) * Times(count), [&] { ops_.SumSquares(stream, count, x, sum); });
}

void ProfiledOps::SumSquaresExactly(Stream& stream, int64_t count, const float* x, int64_t place, ExactSum* sum) {
  Time(stream, "SumSquaresExactly", 0, 4 * Times(count), [&] { ops_.SumSquaresExactly(stream, count, x, place, sum); });
}

void ProfiledOps::Zero(Stream& stream, void* data, int64_t bytes) {
  Time(stream, "Zero", 0, Times(bytes), [&] { ops_.Zero(stream, data, bytes); });
}

void ProfiledOps::Fill(Stream& stream, int64_t count, float value, float* to) {
  Time(stream, "Fill", 0, 4 * Times(count), [&] { ops_.Fill(stream, count, value, to); });
}

void ProfiledOps::AdamW(Stream& stream, const AdamWArguments& p) {
  Time(stream, "AdamW", 0, (ElementBytes(p.gradient) + 24 + ElementBytes(p.parameter)) * Elements(p.segments),
       [&] { ops_.AdamW(stream, p); });
}

void ProfiledOps::Assign(Stream& stream, const AssignArguments& p) {
  Time(stream, "Assign", 0, (4 + DTypeBytes(p.from.dtype)) * Times(p.count), [&] { ops_.Assign(stream, p); });
}

void ProfiledOps::Average(Stream& stream, const AverageArguments& p) {
  Time(stream, "Average", 0, 12 * Times(p.count), [&] { ops_.Average(stream, p); });
}

void ProfiledOps::Sgd(Stream& stream, const SgdArguments& p) {
  Time(stream, "Sgd", 0, (ElementBytes(p.gradient) + 16 + ElementBytes(p.parameter)) * Elements(p.segments),
       [&] { ops_.Sgd(stream, p); });
}

void ProfiledOps::MuonDirection(Stream& stream, const MuonDirectionArguments& p) {
  Time(stream, "MuonDirection", 0, (ElementBytes(p.gradient) + 8 + ElementBytes(p.to)) * Times(p.count),
       [&] { ops_.MuonDirection(stream, p); });
}

void ProfiledOps::MuonMove(Stream& stream, const MuonMoveArguments& p) {
  Time(stream, "MuonMove", 0, (8 + ElementBytes(p.to)) * Times(p.count), [&] { ops_.MuonMove(stream, p); });
}

void ProfiledOps::DivideByNorm(Stream& stream, int64_t count, const double* squares, double least, float* x) {
  Time(stream, "DivideByNorm", 0, 8 * Times(count), [&] { ops_.DivideByNorm(stream, count, squares, least, x); });
}

void ProfiledOps::FillNormal(Stream& stream, const FillNormalArguments& p) {
  Time(stream, "FillNormal", 0, 4 * Times(p.count), [&] { ops_.FillNormal(stream, p); });
}

void ProfiledOps::BeginStep(Stream& stream, double tokens, StepControl* control) {
  Time(stream, "BeginStep", 0, 0, [&] { ops_.BeginStep(stream, tokens, control); });
}

void ProfiledOps::SumScalars(Stream& stream, const SumScalarsArguments& p) {
  Time(stream, "SumScalars", 0, 0, [&] { ops_.SumScalars(stream, p); });
}

void ProfiledOps::DecideStep(Stream& stream, const StepScalars* ranks, int64_t count, const StepRule& rule,
                             StepControl* control) {
  Time(stream, "DecideStep", 0, 0, [&] { ops_.DecideStep(stream, ranks, count, rule, control); });
}

void ProfiledOps::SumExactScalars(Stream& stream, const SumExactScalarsArguments& p) {
  Time(stream, "SumExactScalars", 0, 0, [&] { ops_.SumExactScalars(stream, p); });
}

void ProfiledOps::DecideStep(Stream& stream, const ExactScalars* ranks, int64_t count, const StepRule& rule,
                             StepControl* control) {
  Time(stream, "DecideStep", 0, 0, [&] { ops_.DecideStep(stream, ranks, count, rule, control); });
}

void ProfiledOps::PartEmbeddingForward(Stream& stream, const VocabularyPart& part, const EmbeddingForwardArguments& p) {
  Time(stream, "PartEmbeddingForward", 0, 2 * ElementBytes(p.x) * Times(p.batch, p.time, p.c),
       [&] { ops_.vocabulary().PartEmbeddingForward(stream, part, p); });
}

void ProfiledOps::PartEmbeddingBackward(Stream& stream, const VocabularyPart& part,
                                        const EmbeddingBackwardArguments& p) {
  Time(stream, "PartEmbeddingBackward", 0, (ElementBytes(p.dx) + 8) * Times(p.batch, p.time, p.c),
       [&] { ops_.vocabulary().PartEmbeddingBackward(stream, part, p); });
}

void ProfiledOps::PartLogits(Stream& stream, const PartLogitsArguments& p) {
  Time(stream, "PartLogits", 2 * Times(p.m, p.c, p.part.rows),
       ElementBytes(p.x) * (Times(p.m, p.c) + Times(p.part.rows, p.c)) + 4 * Times(p.m, p.part.rows),
       [&] { ops_.vocabulary().PartLogits(stream, p); });
}

void ProfiledOps::PartCrossEntropy(Stream& stream, const PartCrossEntropyArguments& p) {
  Time(stream, "PartCrossEntropy", (p.dx ? 4 : 0) * Times(p.m, p.c, p.part.rows),
       4 * Times(p.m, p.part.rows) + ElementBytes(p.x) * (Times(p.m, p.c) + Times(p.part.rows, p.c)),
       [&] { ops_.vocabulary().PartCrossEntropy(stream, p); });
}

void ProfiledOps::LinearBackwardWeightBand(Stream& stream, const LinearBackwardWeightArguments& p,
                                           const RowBand& band) {
  Time(stream, "LinearBackwardWeightBand", 2 * Times(p.m, band.count, p.k),
       ElementBytes(p.x) * (Times(p.m, band.count) + Times(p.m, p.k)) + GradientBytes(p) * Times(band.count, p.k),
       [&] { ops_.bands().LinearBackwardWeightBand(stream, p, band); });
}

void ProfiledOps::CrossEntropyBand(Stream& stream, const CrossEntropyBandArguments& p) {
  Time(stream, "CrossEntropyBand", 4 * Times(p.m, p.c, p.band.count),
       ElementBytes(p.x) * (Times(p.m, p.c) + Times(p.band.count, p.c)) + 8 * Times(p.band.count, p.c),
       [&] { ops_.bands().CrossEntropyBand(stream, p); });
}

void ProfiledOps::EmbeddingBackwardBand(Stream& stream, const EmbeddingBackwardArguments& p,
                                        const VocabularyPart& tokens) {
  Time(stream, "EmbeddingBackwardBand", 0, ElementBytes(p.dx) * Times(p.batch, p.time, p.c),
       [&] { ops_.bands().EmbeddingBackwardBand(stream, p, tokens); });
}

void ProfiledOps::PositionsBackwardBand(Stream& stream, const EmbeddingBackwardArguments& p, const RowBand& positions) {
  Time(stream, "PositionsBackwardBand", 0, ElementBytes(p.dx) * Times(p.batch, p.time, p.c),
       [&] { ops_.bands().PositionsBackwardBand(stream, p, positions); });
}

void ProfiledOps::Columns(Stream& stream, const ColumnsArguments& p) {
  Time(stream, "Columns", 0, (p.add ? 3 : 2) * ElementBytes(p.from) * Times(p.m, p.n),
       [&] { ops_.Columns(stream, p); });
}

void ProfiledOps::RmsNormForward(Stream& stream, const RmsNormForwardArguments& p) {
  Time(stream, "RmsNormForward", 0, 2 * ElementBytes(p.x) * Times(p.m, p.c),
       [&] { ops_.llama().RmsNormForward(stream, p); });
}

void ProfiledOps::RmsNormBackward(Stream& stream, const RmsNormBackwardArguments& p) {
  Time(stream, "RmsNormBackward", 0, 4 * ElementBytes(p.x) * Times(p.m, p.c),
       [&] { ops_.llama().RmsNormBackward(stream, p); });
}

void ProfiledOps::HeadNormForward(Stream& stream, const HeadNormForwardArguments& p) {
  Time(stream, "HeadNormForward", 0, 2 * ElementBytes(p.x) * Times(p.m, (p.heads + 2 * p.kv_heads) * p.head_size),
       [&] { ops_.llama().HeadNormForward(stream, p); });
}

void ProfiledOps::HeadNormBackward(Stream& stream, const HeadNormBackwardArguments& p) {
  Time(stream, "HeadNormBackward", 0, 3 * ElementBytes(p.x) * Times(p.m, (p.heads + 2 * p.kv_heads) * p.head_size),
       [&] { ops_.llama().HeadNormBackward(stream, p); });
}

void ProfiledOps::Rotate(Stream& stream, const RotateArguments& p) {
  Time(stream, "Rotate", 0, 2 * ElementBytes(p.x) * Times(p.batch, p.time, p.heads * p.head_size),
       [&] { ops_.llama().Rotate(stream, p); });
}

void ProfiledOps::GateForward(Stream& stream, const GateForwardArguments& p) {
  Time(stream, "GateForward", 0, 3 * ElementBytes(p.x) * Times(p.m, p.n), [&] { ops_.llama().GateForward(stream, p); });
}

void ProfiledOps::GateBackward(Stream& stream, const GateBackwardArguments& p) {
  Time(stream, "GateBackward", 0, 5 * ElementBytes(p.x) * Times(p.m, p.n),
       [&] { ops_.llama().GateBackward(stream, p); });
}

void ProfiledOps::CachedAttention(Stream& stream, const CachedAttentionArguments& p) {
  Time(stream, "CachedAttention", 0, 0, [&] { ops_.cache().CachedAttention(stream, p); });
}

}  // namespace zerofleet::device
