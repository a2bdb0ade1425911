// The ops of ops.h on an NVIDIA GPU.
//
// Each group of ops is one file: linear.cc (cuBLASLt), attention.cc (cuDNN, or the tiled kernels), cached_attention.cu,
// elementwise.cu, norm.cu, rms_norm.cu, llama.cu, embedding.cu, cross_entropy.cu, vocabulary.cu, bands.cu,
// flat_vectors.cu, adamw.cu, sgd.cu, muon.cu, step_scalars.cu, random_fill.cu, gemm_peak.cc. Ops of one CudaOps run on
// one stream at a time: they share its workspace.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_OPS_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/device/band_ops.h"
#include "worker/device/cache_ops.h"
#include "worker/device/cuda/refused_shapes.h"
#include "worker/device/cuda/workspace.h"
#include "worker/device/llama_ops.h"
#include "worker/device/ops.h"
#include "worker/device/vocabulary_ops.h"

namespace zerofleet::device::cuda {

class Matmul;  // matmul.h
struct MatmulArguments;
class FusedAttention;  // attention_cudnn.h

class CudaOps : public Ops, public VocabularyOps, public BandOps, public LlamaOps, public CacheOps {
 public:
  // Uses the current GPU. FailedPrecondition when a library refuses it.
  static absl::StatusOr<std::unique_ptr<CudaOps>> Create();
  ~CudaOps() override;

  // Device memory that the ops and their libraries keep.
  int64_t workspace_bytes() const { return workspace_.bytes(); }
  // Why attention runs only on the tiled kernels, which are an order of magnitude slower; empty where cuDNN's can be
  // used.
  const std::string& fused_attention_refusal() const { return fused_attention_refusal_; }

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

  CacheOps& cache() override { return *this; }
  void CachedAttention(Stream&, const CachedAttentionArguments&) override;

  LlamaOps& llama() override { return *this; }
  void RmsNormForward(Stream&, const RmsNormForwardArguments&) override;
  void RmsNormBackward(Stream&, const RmsNormBackwardArguments&) override;
  void Rotate(Stream&, const RotateArguments&) override;
  void HeadNormForward(Stream&, const HeadNormForwardArguments&) override;
  void HeadNormBackward(Stream&, const HeadNormBackwardArguments&) override;
  void GateForward(Stream&, const GateForwardArguments&) override;
  void GateBackward(Stream&, const GateBackwardArguments&) override;

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

  std::vector<RefusedShape> TakeRefusedShapes() override { return refused_shapes_.Take(); }

  double MeasureGemmPeak(DType dtype, int rounds) override;

 private:
  explicit CudaOps(Workspace workspace);

  // Whether cuDNN runs this shape in the direction that `op` names, which it never does with documents in a sequence;
  // if not, notes it in refused_shapes_. A lack of memory sticks to the stream.
  bool UsesFusedAttention(Stream& stream, const char* op, const AttentionShape& shape, DType dtype, bool documents);
  // Runs the product with its epilogue in cuBLASLt. Where cuBLASLt refuses, notes that, enqueues nothing and returns
  // false.
  bool RunFused(Stream& stream, const char* op, const MatmulArguments& product);
  // y = product + bias; bias may be null.
  void RunWithBias(Stream& stream, const char* op, MatmulArguments product, Tensor bias);

  Workspace workspace_;
  std::unique_ptr<Matmul> matmul_;
  std::unique_ptr<FusedAttention> fused_attention_;  // null where cuDNN cannot be used
  std::string fused_attention_refusal_;              // the reason, where it is null
  RefusedShapes refused_shapes_;
};

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_OPS_H_
