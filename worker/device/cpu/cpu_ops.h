// The ops of ops.h on the CPU.
//
// Each group of ops is one file: linear.cc, elementwise.cc, norm.cc, attention.cc, cached_attention.cc, embedding.cc,
// llama.cc, cross_entropy.cc, vocabulary.cc, bands.cc, flat_vectors.cc, step_scalars.cc, random_fill.cc, gemm_peak.cc.
// They cut the work into blocks for the pool; the arithmetic is in matmul.h (matrices) and kernels.h (vectors).
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_CPU_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_CPU_OPS_H_

#include "worker/device/band_ops.h"
#include "worker/device/cache_ops.h"
#include "worker/device/cpu/rotary_tables.h"
#include "worker/device/cpu/thread_pool.h"
#include "worker/device/llama_ops.h"
#include "worker/device/ops.h"
#include "worker/device/vocabulary_ops.h"

namespace zerofleet::device {

class CpuOps : public Ops, public VocabularyOps, public BandOps, public LlamaOps, public CacheOps {
 public:
  // `pool` outlives this object.
  explicit CpuOps(ThreadPool& pool) : pool_(pool) {}

  void LinearForward(Stream&, const LinearForwardArguments&) override;
  void LinearGeluForward(Stream&, const LinearGeluForwardArguments&) override;
  void LinearBackwardInput(Stream&, const LinearBackwardInputArguments&) override;
  void LinearBackwardInputGelu(Stream&, const LinearBackwardInputGeluArguments&) override;
  void LinearBackwardWeight(Stream&, const LinearBackwardWeightArguments&) override;

  void GeluForward(Stream&, int64_t count, Tensor x, Tensor y) override;
  void Columns(Stream&, const ColumnsArguments&) override;

  void LayerNormForward(Stream&, const LayerNormForwardArguments&) override;
  void LayerNormBackward(Stream&, const LayerNormBackwardArguments&) override;

  void AttentionForward(Stream&, const AttentionForwardArguments&) override;
  void AttentionBackward(Stream&, const AttentionBackwardArguments&) override;
  int64_t AttentionScratchBytes(const AttentionShape&) const override;

  void EmbeddingForward(Stream&, const EmbeddingForwardArguments&) override;
  void EmbeddingBackward(Stream&, const EmbeddingBackwardArguments&) override;

  void CrossEntropy(Stream&, const CrossEntropyArguments&) override;
  int64_t CrossEntropyScratchBytes(int64_t m, int64_t c, int64_t vocab, DType dtype) const override;

  VocabularyOps& vocabulary() override { return *this; }
  void PartEmbeddingForward(Stream&, const VocabularyPart&, const EmbeddingForwardArguments&) override;
  void PartEmbeddingBackward(Stream&, const VocabularyPart&, const EmbeddingBackwardArguments&) override;
  void PartLogits(Stream&, const PartLogitsArguments&) override;
  void PartCrossEntropy(Stream&, const PartCrossEntropyArguments&) override;
  int64_t PartLogitsScratchBytes(int64_t rows, int64_t vocab, DType dtype) const override;

  BandOps& bands() override { return *this; }
  int64_t BandRows(int64_t rows, DType dtype) const override;
  void LinearBackwardWeightBand(Stream&, const LinearBackwardWeightArguments&, const RowBand&) override;
  void CrossEntropyBand(Stream&, const CrossEntropyBandArguments&) override;
  void EmbeddingBackwardBand(Stream&, const EmbeddingBackwardArguments&, const VocabularyPart& tokens) override;
  void PositionsBackwardBand(Stream&, const EmbeddingBackwardArguments&, const RowBand& positions) override;
  void PackedPositionsBand(const EmbeddingBackwardArguments&, const RowBand& positions);

  LlamaOps& llama() override { return *this; }
  void RmsNormForward(Stream&, const RmsNormForwardArguments&) override;
  void RmsNormBackward(Stream&, const RmsNormBackwardArguments&) override;
  void HeadNormForward(Stream&, const HeadNormForwardArguments&) override;
  void HeadNormBackward(Stream&, const HeadNormBackwardArguments&) override;
  void Rotate(Stream&, const RotateArguments&) override;
  void GateForward(Stream&, const GateForwardArguments&) override;
  void GateBackward(Stream&, const GateBackwardArguments&) override;

  CacheOps& cache() override { return *this; }
  void CachedAttention(Stream&, const CachedAttentionArguments&) override;

  void Convert(Stream&, int64_t count, Tensor from, Tensor to) override;
  void Accumulate(Stream&, int64_t count, Tensor from, float* accumulator) override;
  void SumSquares(Stream&, int64_t count, Tensor x, double* sum) override;
  void SumSquaresExactly(Stream&, int64_t count, const float* x, int64_t place, ExactSum* sum) override;
  void Zero(Stream&, void* data, int64_t bytes) override;
  void Fill(Stream&, int64_t count, float value, float* to) override;
  void AdamW(Stream&, const AdamWArguments&) override;
  void Sgd(Stream&, const SgdArguments&) override;
  void MuonDirection(Stream&, const MuonDirectionArguments&) override;
  void MuonMove(Stream&, const MuonMoveArguments&) override;
  void DivideByNorm(Stream&, int64_t count, const double* squares, double least, float* x) override;
  void Assign(Stream&, const AssignArguments&) override;
  void Average(Stream&, const AverageArguments&) override;
  void FillNormal(Stream&, const FillNormalArguments&) override;

  void BeginStep(Stream&, double tokens, StepControl* control) override;
  void SumScalars(Stream&, const SumScalarsArguments&) override;
  void DecideStep(Stream&, const StepScalars* ranks, int64_t count, const StepRule& rule,
                  StepControl* control) override;
  void SumExactScalars(Stream&, const SumExactScalarsArguments&) override;
  void DecideStep(Stream&, const ExactScalars* ranks, int64_t count, const StepRule& rule,
                  StepControl* control) override;

  // On a CPU without bf16 instructions bf16 is computed in fp32, and the peak measured for it is fp32's.
  double MeasureGemmPeak(DType dtype, int rounds) override;

 private:
  // y = x w^T + bias, for more than one row of x.
  void ProductForward(Stream&, const LinearForwardArguments&);
  void LossesOfRows(const CrossEntropyArguments&, int64_t first, int64_t count, Tensor logits, Tensor dlogits,
                    double* losses);
  void LogitsGradientOfBand(Stream&, const CrossEntropyBandArguments&, int64_t first, int64_t count, Tensor logits,
                            Tensor dlogits);

  ThreadPool& pool_;
  RotaryTables tables_;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_CPU_OPS_H_
