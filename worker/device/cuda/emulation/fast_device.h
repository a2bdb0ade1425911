// An emulated GPU that computes with the CPU's ops, for tests of ordering by streams and events: memory, copies,
// streams and events are the backend's own on the emulated runtime, and each op is one operation of its stream. A
// model's step takes a hundredth of the time that it takes with kernels on fibers.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_FAST_DEVICE_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_FAST_DEVICE_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "worker/device/cache_ops.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/emulation/streams.h"
#include "worker/device/llama_ops.h"

namespace zerofleet::device::cuda::emulation {

class FastOps : public Ops, public VocabularyOps, public BandOps, public LlamaOps, public CacheOps {
 public:
  void LinearForward(Stream& s, const LinearForwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LinearForward(on, p); }, {p.m, p.n, p.k});
  }
  void LinearGeluForward(Stream& s, const LinearGeluForwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LinearGeluForward(on, p); }, {p.m, p.n, p.k});
  }
  void LinearBackwardInput(Stream& s, const LinearBackwardInputArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LinearBackwardInput(on, p); }, {p.m, p.n, p.k});
  }
  void LinearBackwardInputGelu(Stream& s, const LinearBackwardInputGeluArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LinearBackwardInputGelu(on, p); }, {p.m, p.n, p.k});
  }
  void LinearBackwardWeight(Stream& s, const LinearBackwardWeightArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LinearBackwardWeight(on, p); }, {p.m, p.n, p.k});
  }
  void GeluForward(Stream& s, int64_t count, Tensor x, Tensor y) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.GeluForward(on, count, x, y); });
  }
  void Columns(Stream& s, const ColumnsArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.Columns(on, p); });
  }
  void LayerNormForward(Stream& s, const LayerNormForwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LayerNormForward(on, p); });
  }
  void LayerNormBackward(Stream& s, const LayerNormBackwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.LayerNormBackward(on, p); });
  }
  void AttentionForward(Stream& s, const AttentionForwardArguments& p) override {
    Add(
        s, [=](Ops& ops, Stream& on) { ops.AttentionForward(on, p); }, ShapeOf(p.shape));
  }
  void AttentionBackward(Stream& s, const AttentionBackwardArguments& p) override {
    Add(
        s, [=](Ops& ops, Stream& on) { ops.AttentionBackward(on, p); }, ShapeOf(p.shape));
  }
  int64_t AttentionScratchBytes(const AttentionShape& shape) const override {
    return cpu_->ops().AttentionScratchBytes(shape);
  }
  void EmbeddingForward(Stream& s, const EmbeddingForwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.EmbeddingForward(on, p); });
  }
  void EmbeddingBackward(Stream& s, const EmbeddingBackwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.EmbeddingBackward(on, p); });
  }
  void CrossEntropy(Stream& s, const CrossEntropyArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.CrossEntropy(on, p); }, {p.m, p.c, p.vocab});
  }
  int64_t CrossEntropyScratchBytes(int64_t m, int64_t c, int64_t vocab, DType dtype) const override {
    return cpu_->ops().CrossEntropyScratchBytes(m, c, vocab, dtype);
  }
  VocabularyOps& vocabulary() override { return *this; }
  void PartEmbeddingForward(Stream& s, const VocabularyPart& part, const EmbeddingForwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.vocabulary().PartEmbeddingForward(on, part, p); });
  }
  void PartEmbeddingBackward(Stream& s, const VocabularyPart& part, const EmbeddingBackwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.vocabulary().PartEmbeddingBackward(on, part, p); });
  }
  void PartLogits(Stream& s, const PartLogitsArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.vocabulary().PartLogits(on, p); });
  }
  void PartCrossEntropy(Stream& s, const PartCrossEntropyArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.vocabulary().PartCrossEntropy(on, p); });
  }
  int64_t PartLogitsScratchBytes(int64_t rows, int64_t vocab, DType dtype) const override {
    return cpu_->ops().vocabulary().PartLogitsScratchBytes(rows, vocab, dtype);
  }
  BandOps& bands() override { return *this; }
  int64_t BandRows(int64_t rows, DType dtype) const override { return cpu_->ops().bands().BandRows(rows, dtype); }
  void LinearBackwardWeightBand(Stream& s, const LinearBackwardWeightArguments& p, const RowBand& band) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.bands().LinearBackwardWeightBand(on, p, band); });
  }
  void CrossEntropyBand(Stream& s, const CrossEntropyBandArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.bands().CrossEntropyBand(on, p); });
  }
  void EmbeddingBackwardBand(Stream& s, const EmbeddingBackwardArguments& p, const VocabularyPart& tokens) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.bands().EmbeddingBackwardBand(on, p, tokens); });
  }
  void PositionsBackwardBand(Stream& s, const EmbeddingBackwardArguments& p, const RowBand& positions) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.bands().PositionsBackwardBand(on, p, positions); });
  }
  CacheOps& cache() override { return *this; }
  void CachedAttention(Stream& s, const CachedAttentionArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.cache().CachedAttention(on, p); });
  }
  LlamaOps& llama() override { return *this; }
  void RmsNormForward(Stream& s, const RmsNormForwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.llama().RmsNormForward(on, p); });
  }
  void RmsNormBackward(Stream& s, const RmsNormBackwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.llama().RmsNormBackward(on, p); });
  }
  void Rotate(Stream& s, const RotateArguments& p) override {
    Add(s, [p, held = std::vector<float>(p.frequencies.begin(), p.frequencies.end())](Ops& ops, Stream& on) {
      RotateArguments later = p;
      later.frequencies = held;
      ops.llama().Rotate(on, later);
    });
  }
  void HeadNormForward(Stream& s, const HeadNormForwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.llama().HeadNormForward(on, p); });
  }
  void HeadNormBackward(Stream& s, const HeadNormBackwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.llama().HeadNormBackward(on, p); });
  }
  void GateForward(Stream& s, const GateForwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.llama().GateForward(on, p); });
  }
  void GateBackward(Stream& s, const GateBackwardArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.llama().GateBackward(on, p); });
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
  void SumSquaresExactly(Stream& s, int64_t count, const float* x, int64_t place, ExactSum* sum) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.SumSquaresExactly(on, count, x, place, sum); });
  }
  void Zero(Stream& s, void* data, int64_t bytes) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.Zero(on, data, bytes); });
  }
  void Fill(Stream& s, int64_t count, float value, float* to) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.Fill(on, count, value, to); });
  }
  void AdamW(Stream& s, const AdamWArguments& p) override {
    Add(s, [p, held = std::vector<DecaySegment>(p.segments.begin(), p.segments.end())](Ops& ops, Stream& on) {
      AdamWArguments later = p;
      later.segments = held;
      ops.AdamW(on, later);
    });
  }
  void Sgd(Stream& s, const SgdArguments& p) override {
    Add(s, [p, held = std::vector<DecaySegment>(p.segments.begin(), p.segments.end())](Ops& ops, Stream& on) {
      SgdArguments later = p;
      later.segments = held;
      ops.Sgd(on, later);
    });
  }
  void MuonDirection(Stream& s, const MuonDirectionArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.MuonDirection(on, p); });
  }
  void MuonMove(Stream& s, const MuonMoveArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.MuonMove(on, p); });
  }
  void DivideByNorm(Stream& s, int64_t count, const double* squares, double least, float* x) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.DivideByNorm(on, count, squares, least, x); });
  }
  void Assign(Stream& s, const AssignArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.Assign(on, p); });
  }
  void Average(Stream& s, const AverageArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.Average(on, p); });
  }
  void FillNormal(Stream& s, const FillNormalArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.FillNormal(on, p); });
  }
  void BeginStep(Stream& s, double tokens, StepControl* control) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.BeginStep(on, tokens, control); });
  }
  void SumScalars(Stream& s, const SumScalarsArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.SumScalars(on, p); });
  }
  void DecideStep(Stream& s, const StepScalars* ranks, int64_t count, const StepRule& rule,
                  StepControl* control) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.DecideStep(on, ranks, count, rule, control); });
  }
  void SumExactScalars(Stream& s, const SumExactScalarsArguments& p) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.SumExactScalars(on, p); });
  }
  void DecideStep(Stream& s, const ExactScalars* ranks, int64_t count, const StepRule& rule,
                  StepControl* control) override {
    Add(s, [=](Ops& ops, Stream& on) { ops.DecideStep(on, ranks, count, rule, control); });
  }
  double MeasureGemmPeak(DType dtype, int rounds) override { return cpu_->ops().MeasureGemmPeak(dtype, rounds); }

  // How many ops had their first call while a collective was in flight on the same GPU. Ops of the vendor's libraries
  // count per shape: the libraries choose kernels by the shape, and a real GPU loads a kernel at its first call.
  int loaded_beside_collectives() const { return loaded_beside_collectives_; }

 private:
  static std::vector<int64_t> ShapeOf(const AttentionShape& shape) {
    return {shape.batch, shape.time, shape.heads, shape.head_size, shape.kv_heads};
  }

  // `shape` is set for ops whose kernel a vendor's library chooses.
  void Add(Stream& stream, std::function<void(Ops&, Stream&)> op, std::vector<int64_t> shape = {}) {
    const bool is_first = loaded_.insert({op.target_type().hash_code(), std::move(shape)}).second;
    if (is_first && CollectivesInFlight(static_cast<CudaStream&>(stream).handle()) > 0) ++loaded_beside_collectives_;
    Enqueue(static_cast<CudaStream&>(stream).handle(), [cpu = cpu_, op = std::move(op)] {
      const std::unique_ptr<Stream> now = cpu->CreateStream().value();
      op(cpu->ops(), *now);
      ZF_CHECK(now->Synchronize().ok());
    });
  }

  const std::shared_ptr<CpuDevice> cpu_ = std::make_shared<CpuDevice>(1);
  std::set<std::pair<size_t, std::vector<int64_t>>> loaded_;
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
  Device& host() override { return gpu_->host(); }

 private:
  std::unique_ptr<CudaDevice> gpu_;
  FastOps ops_;
};

}  // namespace zerofleet::device::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_FAST_DEVICE_H_
