// The ops of ops.h on the CPU.
//
// Each group of ops is one file: linear.cc, elementwise.cc, norm.cc, attention.cc, embedding.cc, cross_entropy.cc,
// flat_vectors.cc, step_scalars.cc, random_fill.cc, gemm_peak.cc. They cut the work into blocks for the pool; the
// arithmetic is in matmul.h (matrices) and kernels.h (vectors).
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_CPU_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_CPU_OPS_H_

#include "worker/device/cpu/thread_pool.h"
#include "worker/device/ops.h"

namespace zerofleet {

class CpuOps : public Ops {
 public:
  // `pool` outlives this object.
  explicit CpuOps(ThreadPool& pool) : pool_(pool) {}

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

  // Where bf16 has no instructions the arithmetic is fp32, and so is the peak that is measured for it.
  double MeasureGemmPeak(DType dtype, int rounds) override;

 private:
  ThreadPool& pool_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_CPU_OPS_H_
