// The ops of ops.h on an NVIDIA GPU.
//
// Each group of ops is one file: linear.cc (cuBLASLt), attention.cc (cuDNN, or the tiled kernels), elementwise.cu,
// norm.cu, embedding.cu, cross_entropy.cu, flat_vectors.cu, adamw.cu, sgd.cu, step_scalars.cu, random_fill.cu,
// gemm_peak.cc. Ops of one CudaOps run on one stream at a time: they share its workspace.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_OPS_H_

#include <memory>

#include "worker/device/cuda/workspace.h"
#include "worker/device/ops.h"

namespace zerofleet::cuda {

class Matmul;          // matmul.h
class FusedAttention;  // attention_cudnn.h

class CudaOps : public Ops {
 public:
  // FailedPrecondition when a library refuses this GPU.
  static absl::StatusOr<std::unique_ptr<CudaOps>> Create();
  ~CudaOps() override;

  // Device memory the ops and their libraries keep.
  int64_t workspace_bytes() const { return workspace_.bytes(); }
  // Why attention runs only on the tiled kernels, which are an order of magnitude slower; empty where cuDNN's can be
  // used.
  const std::string& fused_attention_refusal() const { return fused_attention_refusal_; }

  void LinearForward(Stream&, int64_t m, int64_t n, int64_t k, Tensor x, Tensor w, Tensor bias, Tensor residual,
                     Tensor y) override;
  void LinearGeluForward(Stream&, int64_t m, int64_t n, int64_t k, Tensor x, Tensor w, Tensor bias, Tensor before,
                         Tensor y) override;
  void LinearBackwardInput(Stream&, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor w, Tensor dx) override;
  void LinearBackwardInputGelu(Stream&, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor w, Tensor before,
                               Tensor dbefore) override;
  void LinearBackwardWeight(Stream&, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor x, float* dw,
                            float* dbias) override;

  void GeluForward(Stream&, int64_t count, Tensor x, Tensor y) override;

  void LayerNormForward(Stream&, int64_t m, int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor beta, Tensor y,
                        float* mean, float* rstd) override;
  void LayerNormBackward(Stream&, int64_t m, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* mean,
                         const float* rstd, Tensor dx, float* dgamma, float* dbeta) override;

  void AttentionForward(Stream&, const AttentionShape&, Tensor qkv, Tensor out, float* logsumexp,
                        void* scratch) override;
  void AttentionBackward(Stream&, const AttentionShape&, Tensor qkv, Tensor out, const float* logsumexp, Tensor dout,
                         Tensor dqkv, void* scratch) override;
  int64_t AttentionScratchBytes(const AttentionShape&) const override;

  void EmbeddingForward(Stream&, int64_t batch, int64_t time, int64_t c, const int32_t* tokens, Tensor wte, Tensor wpe,
                        Tensor x) override;
  void EmbeddingBackward(Stream&, int64_t batch, int64_t time, int64_t c, const int32_t* tokens, Tensor dx, float* dwte,
                         float* dwpe) override;

  void CrossEntropy(Stream&, int64_t m, int64_t c, int64_t vocab, Tensor x, Tensor w, const int32_t* targets,
                    const float* gradient_scale, double* loss_sum, Tensor dx, float* dw, void* scratch) override;
  int64_t CrossEntropyScratchBytes(int64_t m, int64_t c, int64_t vocab, DType dtype) const override;

  void Convert(Stream&, int64_t count, Tensor from, Tensor to) override;
  void Accumulate(Stream&, int64_t count, Tensor from, float* accumulator) override;
  void SumSquares(Stream&, int64_t count, Tensor x, double* sum) override;
  void Zero(Stream&, void* data, int64_t bytes) override;
  void Fill(Stream&, int64_t count, float value, float* to) override;
  void AdamW(Stream&, std::span<const DecaySegment> segments, const StepControl* control, Tensor gradient,
             float* master, float* exp_avg, float* exp_avg_sq, Tensor parameter) override;
  void Sgd(Stream&, std::span<const DecaySegment> segments, const StepControl* control, Tensor gradient, float* master,
           float* momentum, Tensor parameter) override;
  void FillNormal(Stream&, int64_t count, uint64_t seed, uint64_t stream_id, int64_t first, float deviation,
                  float* to) override;

  void BeginStep(Stream&, double tokens, StepControl* control) override;
  void SumScalars(Stream&, const double* losses, int64_t loss_count, const double* squares, int64_t square_count,
                  uint64_t flags, StepScalars* mine) override;
  void DecideStep(Stream&, const StepScalars* ranks, int64_t count, const StepRule& rule,
                  StepControl* control) override;

  double MeasureGemmPeak(DType dtype, int rounds) override;

 private:
  explicit CudaOps(Workspace workspace);

  Workspace workspace_;
  std::unique_ptr<Matmul> matmul_;
  std::unique_ptr<FusedAttention> fused_attention_;  // null where cuDNN's cannot be used
  std::string fused_attention_refusal_;              // and then the reason
};

}  // namespace zerofleet::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_OPS_H_
