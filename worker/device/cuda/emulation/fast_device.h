// An emulated GPU that computes with the CPU's ops, for tests of ordering by streams and events: memory, copies,
// streams and events are the backend's own on the emulated runtime, and each op is one operation of its stream. A
// model's step takes a hundredth of its time with kernels on fibers.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_FAST_DEVICE_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_FAST_DEVICE_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/emulation/streams.h"

namespace zerofleet::cuda::emulation {

class FastOps : public Ops {
 public:
  void LinearForward(Stream& s, int64_t m, int64_t n, int64_t k, Tensor x, Tensor w, Tensor bias, Tensor residual,
                     Tensor y) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LinearForward(on, m, n, k, x, w, bias, residual, y); });
  }
  void LinearGeluForward(Stream& s, int64_t m, int64_t n, int64_t k, Tensor x, Tensor w, Tensor bias, Tensor before,
                         Tensor y) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LinearGeluForward(on, m, n, k, x, w, bias, before, y); });
  }
  void LinearBackwardInput(Stream& s, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor w, Tensor dx) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LinearBackwardInput(on, m, n, k, dy, w, dx); });
  }
  void LinearBackwardInputGelu(Stream& s, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor w, Tensor before,
                               Tensor dbefore) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LinearBackwardInputGelu(on, m, n, k, dy, w, before, dbefore); });
  }
  void LinearBackwardWeight(Stream& s, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor x, float* dw,
                            float* dbias) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LinearBackwardWeight(on, m, n, k, dy, x, dw, dbias); });
  }
  void GeluForward(Stream& s, int64_t count, Tensor x, Tensor y) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.GeluForward(on, count, x, y); });
  }
  void LayerNormForward(Stream& s, int64_t m, int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor beta, Tensor y,
                        float* mean, float* rstd) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LayerNormForward(on, m, c, epsilon, x, gamma, beta, y, mean, rstd); });
  }
  void LayerNormBackward(Stream& s, int64_t m, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* mean,
                         const float* rstd, Tensor dx, float* dgamma, float* dbeta) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LayerNormBackward(on, m, c, dy, x, gamma, mean, rstd, dx, dgamma, dbeta); });
  }
  void AttentionForward(Stream& s, const AttentionShape& shape, Tensor qkv, Tensor out, float* logsumexp,
                        void* scratch) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.AttentionForward(on, shape, qkv, out, logsumexp, scratch); });
  }
  void AttentionBackward(Stream& s, const AttentionShape& shape, Tensor qkv, Tensor out, const float* logsumexp,
                         Tensor dout, Tensor dqkv, void* scratch) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.AttentionBackward(on, shape, qkv, out, logsumexp, dout, dqkv, scratch); });
  }
  int64_t AttentionScratchBytes(const AttentionShape& shape) const override {
    return cpu_->ops().AttentionScratchBytes(shape);
  }
  void EmbeddingForward(Stream& s, int64_t batch, int64_t time, int64_t c, const int32_t* tokens, Tensor wte,
                        Tensor wpe, Tensor x) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.EmbeddingForward(on, batch, time, c, tokens, wte, wpe, x); });
  }
  void EmbeddingBackward(Stream& s, int64_t batch, int64_t time, int64_t c, const int32_t* tokens, Tensor dx,
                         float* dwte, float* dwpe) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.EmbeddingBackward(on, batch, time, c, tokens, dx, dwte, dwpe); });
  }
  void CrossEntropy(Stream& s, int64_t m, int64_t c, int64_t vocab, Tensor x, Tensor w, const int32_t* targets,
                    const float* gradient_scale, double* loss_sum, Tensor dx, float* dw, void* scratch) override {
    Add(s, [=](Ops& ops, Stream& on) {
      ops.CrossEntropy(on, m, c, vocab, x, w, targets, gradient_scale, loss_sum, dx, dw, scratch);
    });
  }
  int64_t CrossEntropyScratchBytes(int64_t m, int64_t c, int64_t vocab, DType dtype) const override {
    return cpu_->ops().CrossEntropyScratchBytes(m, c, vocab, dtype);
  }
  void Convert(Stream& s, int64_t count, Tensor from, Tensor to) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.Convert(on, count, from, to); });
  }
  void Accumulate(Stream& s, int64_t count, Tensor from, float* accumulator) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.Accumulate(on, count, from, accumulator); });
  }
  void SumSquares(Stream& s, int64_t count, Tensor x, double* sum) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.SumSquares(on, count, x, sum); });
  }
  void Zero(Stream& s, void* data, int64_t bytes) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.Zero(on, data, bytes); });
  }
  void Fill(Stream& s, int64_t count, float value, float* to) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.Fill(on, count, value, to); });
  }
  void AdamW(Stream& s, std::span<const DecaySegment> segments, const StepControl* control, Tensor gradient,
             float* master, float* exp_avg, float* exp_avg_sq, Tensor parameter) override {
    Add(s, [=, held = std::vector<DecaySegment>(segments.begin(), segments.end())](Ops& ops, Stream& on) {
      ops.AdamW(on, held, control, gradient, master, exp_avg, exp_avg_sq, parameter);
    });
  }
  void Sgd(Stream& s, std::span<const DecaySegment> segments, const StepControl* control, Tensor gradient,
           float* master, float* momentum, Tensor parameter) override {
    Add(s, [=, held = std::vector<DecaySegment>(segments.begin(), segments.end())](Ops& ops, Stream& on) {
      ops.Sgd(on, held, control, gradient, master, momentum, parameter);
    });
  }
  void FillNormal(Stream& s, int64_t count, uint64_t seed, uint64_t stream_id, int64_t first, float deviation,
                  float* to) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.FillNormal(on, count, seed, stream_id, first, deviation, to); });
  }
  void BeginStep(Stream& s, double tokens, StepControl* control) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.BeginStep(on, tokens, control); });
  }
  void SumScalars(Stream& s, const double* losses, int64_t loss_count, const double* squares, int64_t square_count,
                  uint64_t flags, StepScalars* mine) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.SumScalars(on, losses, loss_count, squares, square_count, flags, mine); });
  }
  void DecideStep(Stream& s, const StepScalars* ranks, int64_t count, const StepRule& rule,
                  StepControl* control) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.DecideStep(on, ranks, count, rule, control); });
  }
  double MeasureGemmPeak(DType dtype, int rounds) override { return cpu_->ops().MeasureGemmPeak(dtype, rounds); }

  // Ops whose first call came while a collective was in flight on the same GPU. A real GPU loads kernels at that
  // moment.
  int loaded_beside_collectives() const { return loaded_beside_collectives_; }

 private:
  void Add(Stream& stream, std::function<void(Ops&, Stream&)> op) {
    const bool is_first = loaded_.insert(op.target_type().hash_code()).second;
    if (is_first && CollectivesInFlight(static_cast<CudaStream&>(stream).handle()) > 0) ++loaded_beside_collectives_;
    Enqueue(static_cast<CudaStream&>(stream).handle(), [cpu = cpu_, op = std::move(op)] {
      const std::unique_ptr<Stream> now = cpu->CreateStream().value();
      op(cpu->ops(), *now);
      ZF_CHECK(now->Synchronize().ok());
    });
  }

  const std::shared_ptr<CpuDevice> cpu_ = std::make_shared<CpuDevice>(1);
  std::set<size_t> loaded_;
  int loaded_beside_collectives_ = 0;
};

class FastDevice : public Device {
 public:
  explicit FastDevice(int local_rank) : gpu_(CudaDevice::Create(local_rank).value()) {}

  std::string kind() const override { return gpu_->kind(); }
  std::string description() const override { return gpu_->description(); }
  std::string unique_id() const override { return gpu_->unique_id(); }
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes) override { return gpu_->Reserve(bytes); }
  absl::StatusOr<std::unique_ptr<Reservation>> ReserveHost(int64_t bytes) override { return gpu_->ReserveHost(bytes); }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override { return gpu_->CreateStream(); }
  absl::StatusOr<std::unique_ptr<Stream>> CreateUrgentStream() override { return gpu_->CreateUrgentStream(); }
  void Copy(Stream& stream, void* to, const void* from, int64_t bytes) override { gpu_->Copy(stream, to, from, bytes); }
  bool host_addressable() const override { return false; }
  double datasheet_flops(DType dtype) const override { return gpu_->datasheet_flops(dtype); }
  std::optional<DeviceMemory> memory() const override { return gpu_->memory(); }
  FastOps& ops() override { return ops_; }

 private:
  std::unique_ptr<CudaDevice> gpu_;
  FastOps ops_;
};

}  // namespace zerofleet::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_FAST_DEVICE_H_
