// Ops that do nothing; see dry_device.h.
#ifndef ZEROFLEET_WORKER_DEVICE_DRY_DRY_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_DRY_DRY_OPS_H_

#include <cstdint>

#include "worker/device/band_ops.h"
#include "worker/device/cache_ops.h"
#include "worker/device/llama_ops.h"
#include "worker/device/ops.h"
#include "worker/device/vocabulary_ops.h"

namespace zerofleet::device {

class DryOps : public Ops, public VocabularyOps, public BandOps, public LlamaOps, public CacheOps {
 public:
  void LinearForward(Stream&, const LinearForwardArguments&) override {}
  void LinearGeluForward(Stream&, const LinearGeluForwardArguments&) override {}
  void LinearBackwardInput(Stream&, const LinearBackwardInputArguments&) override {}
  void LinearBackwardInputGelu(Stream&, const LinearBackwardInputGeluArguments&) override {}
  void LinearBackwardWeight(Stream&, const LinearBackwardWeightArguments&) override {}
  void GeluForward(Stream&, int64_t, Tensor, Tensor) override {}
  void Columns(Stream&, const ColumnsArguments&) override {}
  void LayerNormForward(Stream&, const LayerNormForwardArguments&) override {}
  void LayerNormBackward(Stream&, const LayerNormBackwardArguments&) override {}
  void AttentionForward(Stream&, const AttentionForwardArguments&) override {}
  void AttentionBackward(Stream&, const AttentionBackwardArguments&) override {}
  int64_t AttentionScratchBytes(const AttentionShape&) const override { return 0; }
  void EmbeddingForward(Stream&, const EmbeddingForwardArguments&) override {}
  void EmbeddingBackward(Stream&, const EmbeddingBackwardArguments&) override {}
  void CrossEntropy(Stream&, const CrossEntropyArguments&) override {}
  int64_t CrossEntropyScratchBytes(int64_t, int64_t, int64_t, DType) const override { return 0; }
  VocabularyOps& vocabulary() override { return *this; }
  void PartEmbeddingForward(Stream&, const VocabularyPart&, const EmbeddingForwardArguments&) override {}
  void PartEmbeddingBackward(Stream&, const VocabularyPart&, const EmbeddingBackwardArguments&) override {}
  void PartLogits(Stream&, const PartLogitsArguments&) override {}
  void PartCrossEntropy(Stream&, const PartCrossEntropyArguments&) override {}
  int64_t PartLogitsScratchBytes(int64_t, int64_t, DType) const override { return 0; }
  BandOps& bands() override { return *this; }
  int64_t BandRows(int64_t rows, DType) const override { return rows; }
  void LinearBackwardWeightBand(Stream&, const LinearBackwardWeightArguments&, const RowBand&) override {}
  void CrossEntropyBand(Stream&, const CrossEntropyBandArguments&) override {}
  void EmbeddingBackwardBand(Stream&, const EmbeddingBackwardArguments&, const VocabularyPart&) override {}
  void PositionsBackwardBand(Stream&, const EmbeddingBackwardArguments&, const RowBand&) override {}
  LlamaOps& llama() override { return *this; }
  void RmsNormForward(Stream&, const RmsNormForwardArguments&) override {}
  void RmsNormBackward(Stream&, const RmsNormBackwardArguments&) override {}
  void HeadNormForward(Stream&, const HeadNormForwardArguments&) override {}
  void HeadNormBackward(Stream&, const HeadNormBackwardArguments&) override {}
  void Rotate(Stream&, const RotateArguments&) override {}
  void GateForward(Stream&, const GateForwardArguments&) override {}
  void GateBackward(Stream&, const GateBackwardArguments&) override {}
  CacheOps& cache() override { return *this; }
  void CachedAttention(Stream&, const CachedAttentionArguments&) override {}
  void Convert(Stream&, int64_t, Tensor, Tensor) override {}
  void Accumulate(Stream&, int64_t, Tensor, float*) override {}
  void SumSquares(Stream&, int64_t, Tensor, double*) override {}
  void SumSquaresExactly(Stream&, int64_t, const float*, int64_t, ExactSum*) override {}
  void Zero(Stream&, void*, int64_t) override {}
  void Fill(Stream&, int64_t, float, float*) override {}
  void AdamW(Stream&, const AdamWArguments&) override {}
  void Sgd(Stream&, const SgdArguments&) override {}
  void MuonDirection(Stream&, const MuonDirectionArguments&) override {}
  void MuonMove(Stream&, const MuonMoveArguments&) override {}
  void DivideByNorm(Stream&, int64_t, const double*, double, float*) override {}
  void Assign(Stream&, const AssignArguments&) override {}
  void Average(Stream&, const AverageArguments&) override {}
  void FillNormal(Stream&, const FillNormalArguments&) override {}
  void BeginStep(Stream&, double, StepControl*) override {}
  void SumScalars(Stream&, const SumScalarsArguments&) override {}
  void DecideStep(Stream&, const StepScalars*, int64_t, const StepRule&, StepControl*) override {}
  void SumExactScalars(Stream&, const SumExactScalarsArguments&) override {}
  void DecideStep(Stream&, const ExactScalars*, int64_t, const StepRule&, StepControl*) override {}
  double MeasureGemmPeak(DType, int) override { return 0; }
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_DRY_DRY_OPS_H_
