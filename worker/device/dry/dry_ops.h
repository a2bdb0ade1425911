// Ops that do nothing; see dry_device.h.
#ifndef ZEROFLEET_WORKER_DEVICE_DRY_DRY_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_DRY_DRY_OPS_H_

#include <cstdint>
#include <span>

#include "worker/device/ops.h"

namespace zerofleet {

class DryOps : public Ops {
 public:
  void LinearForward(Stream&, int64_t, int64_t, int64_t, Tensor, Tensor, Tensor, Tensor, Tensor) override {}
  void LinearGeluForward(Stream&, int64_t, int64_t, int64_t, Tensor, Tensor, Tensor, Tensor, Tensor) override {}
  void LinearBackwardInput(Stream&, int64_t, int64_t, int64_t, Tensor, Tensor, Tensor) override {}
  void LinearBackwardInputGelu(Stream&, int64_t, int64_t, int64_t, Tensor, Tensor, Tensor, Tensor) override {}
  void LinearBackwardWeight(Stream&, int64_t, int64_t, int64_t, Tensor, Tensor, float*, float*) override {}
  void GeluForward(Stream&, int64_t, Tensor, Tensor) override {}
  void LayerNormForward(Stream&, int64_t, int64_t, float, Tensor, Tensor, Tensor, Tensor, float*, float*) override {}
  void LayerNormBackward(Stream&, int64_t, int64_t, Tensor, Tensor, Tensor, const float*, const float*, Tensor, float*,
                         float*) override {}
  void AttentionForward(Stream&, const AttentionShape&, Tensor, Tensor, float*, void*) override {}
  void AttentionBackward(Stream&, const AttentionShape&, Tensor, Tensor, const float*, Tensor, Tensor, void*) override {
  }
  int64_t AttentionScratchBytes(const AttentionShape&) const override { return 0; }
  void EmbeddingForward(Stream&, int64_t, int64_t, int64_t, const int32_t*, Tensor, Tensor, Tensor) override {}
  void EmbeddingBackward(Stream&, int64_t, int64_t, int64_t, const int32_t*, Tensor, float*, float*) override {}
  void CrossEntropy(Stream&, int64_t, int64_t, int64_t, Tensor, Tensor, const int32_t*, const float*, double*, Tensor,
                    float*, void*) override {}
  int64_t CrossEntropyScratchBytes(int64_t, int64_t, int64_t, DType) const override { return 0; }
  void Convert(Stream&, int64_t, Tensor, Tensor) override {}
  void Accumulate(Stream&, int64_t, Tensor, float*) override {}
  void SumSquares(Stream&, int64_t, Tensor, double*) override {}
  void Zero(Stream&, void*, int64_t) override {}
  void Fill(Stream&, int64_t, float, float*) override {}
  void AdamW(Stream&, std::span<const DecaySegment>, const StepControl*, Tensor, float*, float*, float*,
             Tensor) override {}
  void Sgd(Stream&, std::span<const DecaySegment>, const StepControl*, Tensor, float*, float*, Tensor) override {}
  void FillNormal(Stream&, int64_t, uint64_t, uint64_t, int64_t, float, float*) override {}
  void BeginStep(Stream&, double, StepControl*) override {}
  void SumScalars(Stream&, const double*, int64_t, const double*, int64_t, uint64_t, StepScalars*) override {}
  void DecideStep(Stream&, const StepScalars*, int64_t, const StepRule&, StepControl*) override {}
  double MeasureGemmPeak(DType, int) override { return 0; }
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_DEVICE_DRY_DRY_OPS_H_
