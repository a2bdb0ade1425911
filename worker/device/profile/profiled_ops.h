// Ops that report the time of each call to a sink: by the host's clock where they are done when they return, else by
// events on their streams.
#ifndef ZEROFLEET_WORKER_DEVICE_PROFILE_PROFILED_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_PROFILE_PROFILED_OPS_H_

#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/band_ops.h"
#include "worker/device/cache_ops.h"
#include "worker/device/llama_ops.h"
#include "worker/device/ops.h"
#include "worker/device/profile/op_sink.h"
#include "worker/device/vocabulary_ops.h"

namespace zerofleet::device {

class ProfiledOps : public Ops, public VocabularyOps, public BandOps, public LlamaOps, public CacheOps {
 public:
  // Where the ops run: on the host's threads, before they return, or behind the host, on streams of their own. There a
  // call is reported once a later one finds that it is done.
  enum class Where : uint8_t { kHost, kBehindHost };

  // `ops` and `sink` must outlive this object.
  ProfiledOps(Ops& ops, OpSink& sink, Where where) : ops_(ops), sink_(sink), where_(where) {}

  void LinearForward(Stream&, const LinearForwardArguments&) override;
  void LinearGeluForward(Stream&, const LinearGeluForwardArguments&) override;
  void LinearBackwardInput(Stream&, const LinearBackwardInputArguments&) override;
  void LinearBackwardInputGelu(Stream&, const LinearBackwardInputGeluArguments&) override;
  void LinearBackwardWeight(Stream&, const LinearBackwardWeightArguments&) override;
  void GeluForward(Stream&, int64_t, Tensor, Tensor) override;
  void LayerNormForward(Stream&, const LayerNormForwardArguments&) override;
  void LayerNormBackward(Stream&, const LayerNormBackwardArguments&) override;
  void AttentionForward(Stream&, const AttentionForwardArguments&) override;
  void AttentionBackward(Stream&, const AttentionBackwardArguments&) override;
  void EmbeddingForward(Stream&, const EmbeddingForwardArguments&) override;
  void EmbeddingBackward(Stream&, const EmbeddingBackwardArguments&) override;
  void CrossEntropy(Stream&, const CrossEntropyArguments&) override;
  void Convert(Stream&, int64_t, Tensor, Tensor) override;
  void Accumulate(Stream&, int64_t, Tensor, float*) override;
  void SumSquares(Stream&, int64_t, Tensor, double*) override;
  void SumSquaresExactly(Stream&, int64_t, const float*, int64_t, ExactSum*) override;
  void Zero(Stream&, void*, int64_t) override;
  void Fill(Stream&, int64_t, float, float*) override;
  void AdamW(Stream&, const AdamWArguments&) override;
  void Sgd(Stream&, const SgdArguments&) override;
  void MuonDirection(Stream&, const MuonDirectionArguments&) override;
  void MuonMove(Stream&, const MuonMoveArguments&) override;
  void DivideByNorm(Stream&, int64_t, const double*, double, float*) override;
  void Assign(Stream&, const AssignArguments&) override;
  void Average(Stream&, const AverageArguments&) override;
  void FillNormal(Stream&, const FillNormalArguments&) override;
  void BeginStep(Stream&, double, StepControl*) override;
  void SumScalars(Stream&, const SumScalarsArguments&) override;
  void DecideStep(Stream&, const StepScalars*, int64_t, const StepRule&, StepControl*) override;
  void SumExactScalars(Stream&, const SumExactScalarsArguments&) override;
  void DecideStep(Stream&, const ExactScalars*, int64_t, const StepRule&, StepControl*) override;

  void PartEmbeddingForward(Stream&, const VocabularyPart&, const EmbeddingForwardArguments&) override;
  void PartEmbeddingBackward(Stream&, const VocabularyPart&, const EmbeddingBackwardArguments&) override;
  void PartLogits(Stream&, const PartLogitsArguments&) override;
  void PartCrossEntropy(Stream&, const PartCrossEntropyArguments&) override;

  void LinearBackwardWeightBand(Stream&, const LinearBackwardWeightArguments&, const RowBand&) override;
  void CrossEntropyBand(Stream&, const CrossEntropyBandArguments&) override;
  void EmbeddingBackwardBand(Stream&, const EmbeddingBackwardArguments&, const VocabularyPart&) override;
  void PositionsBackwardBand(Stream&, const EmbeddingBackwardArguments&, const RowBand&) override;

  void Columns(Stream&, const ColumnsArguments&) override;
  void RmsNormForward(Stream&, const RmsNormForwardArguments&) override;
  void RmsNormBackward(Stream&, const RmsNormBackwardArguments&) override;
  void HeadNormForward(Stream&, const HeadNormForwardArguments&) override;
  void HeadNormBackward(Stream&, const HeadNormBackwardArguments&) override;
  void Rotate(Stream&, const RotateArguments&) override;
  void GateForward(Stream&, const GateForwardArguments&) override;
  void GateBackward(Stream&, const GateBackwardArguments&) override;

  void CachedAttention(Stream&, const CachedAttentionArguments&) override;

  int64_t AttentionScratchBytes(const AttentionShape& shape) const override {
    return ops_.AttentionScratchBytes(shape);
  }
  int64_t CrossEntropyScratchBytes(int64_t m, int64_t c, int64_t vocab, DType dtype) const override {
    return ops_.CrossEntropyScratchBytes(m, c, vocab, dtype);
  }
  int64_t PartLogitsScratchBytes(int64_t rows, int64_t vocab, DType dtype) const override {
    return ops_.vocabulary().PartLogitsScratchBytes(rows, vocab, dtype);
  }
  int64_t BandRows(int64_t rows, DType dtype) const override { return ops_.bands().BandRows(rows, dtype); }
  std::vector<RefusedShape> TakeRefusedShapes() override { return ops_.TakeRefusedShapes(); }
  double MeasureGemmPeak(DType dtype, int rounds) override { return ops_.MeasureGemmPeak(dtype, rounds); }
  VocabularyOps& vocabulary() override { return *this; }
  BandOps& bands() override { return *this; }
  LlamaOps& llama() override { return *this; }
  CacheOps& cache() override { return *this; }

 private:
  // A call whose op has been enqueued, between two events.
  struct Enqueued {
    std::string_view op;
    OpCall call;
    std::shared_ptr<Event> before, after;
  };

  // Calls `op`, which uses `stream`, and reports the call to the sink as `name`, a literal.
  template <class Op>
  void Time(Stream& stream, std::string_view name, double flops, double bytes, const Op& op);

  Ops& ops_;
  OpSink& sink_;
  const Where where_;
  absl::Mutex mutex_;
  std::deque<Enqueued> behind_host_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_PROFILE_PROFILED_OPS_H_
