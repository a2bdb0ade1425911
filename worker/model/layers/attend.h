// Causal attention over a part's heads.
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_ATTEND_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_ATTEND_H_

#include "worker/model/declaration.h"
#include "worker/model/layer.h"

namespace zerofleet::model {

class AttendLayer : public Layer {
 public:
  explicit AttendLayer(Declaration& declaration);

  int64_t AttentionScratchBytes(device::Ops& ops, int64_t sequences, int64_t time) const override {
    return ops.AttentionScratchBytes(Shape(sequences, time));
  }
  int64_t CachedElements(int64_t capacity) const override { return 2 * kv_heads_ * capacity * head_size_; }
  absl::Status Forward(const UnitPass& pass) const override;
  absl::StatusOr<device::Tensor> Backward(const UnitPass& pass, device::Tensor dy) const override;
  device::Tensor Output(const UnitPass& pass) const override { return pass.At(output_); }
  // Behind the gradient of its input, where `narrow` holds the residual stream's gradient or has too few columns.
  GradientPlace TakesGradient(const UnitPass& pass) const override;

 private:
  void ForwardCached(const UnitPass& pass, const KeyValueCache& cache) const;
  device::AttentionShape Shape(int64_t sequences, int64_t time) const;
  int64_t QueryColumns() const { return heads_ * head_size_; }
  int64_t InputColumns() const { return (heads_ + 2 * kv_heads_) * head_size_; }

  const int64_t heads_, kv_heads_, head_size_;  // in the part
  const bool behind_input_;                     // the gradient of its output lies behind that of its input
  const int output_, logsumexp_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYERS_ATTEND_H_
