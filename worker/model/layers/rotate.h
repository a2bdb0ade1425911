// Rotary positions: rotates queries and keys where the product before has put them, or the outputs of the norms of
// their heads.
#ifndef ZEROFLEET_WORKER_MODEL_LAYERS_ROTATE_H_
#define ZEROFLEET_WORKER_MODEL_LAYERS_ROTATE_H_

#include <optional>
#include <vector>

#include "worker/model/declaration.h"
#include "worker/model/layer.h"
#include "worker/model/rows.h"

namespace zerofleet::model {

// An RMS norm of each head's queries, and one of each head's keys (Henry et al. 2020; model.qk_norm). A rank of a
// tensor group has its heads' share of the gradient.
class HeadNorm {
 public:
  HeadNorm(const Rotate& row, float epsilon, Declaration& declaration);

  device::Tensor Output(const UnitPass& pass) const { return pass.At(output_); }
  void Forward(const UnitPass& pass, device::Tensor x) const;
  // `dy` becomes the gradient of `x`.
  absl::Status Backward(const UnitPass& pass, device::Tensor x, device::Tensor dy) const;
  // Does what Layer::AddNormGradient does.
  absl::Status AddGradient(const UnitPass& pass) const;

 private:
  int64_t elements() const { return 2 * head_size_; }

  const int64_t heads_, kv_heads_, head_size_;  // in the part
  const float epsilon_;
  const bool summed_;     // the gradient is summed over a tensor group
  const int64_t weight_;  // the queries' weight; the keys' follows
  const int64_t sums_at_;
  const int output_, rstd_;
};

// A rotation keeps no activations: the opposite rotation undoes it, and is its gradient's too.
class RotateLayer : public Layer {
 public:
  RotateLayer(const Rotate& row, float epsilon, Declaration& declaration);

  absl::Status Forward(const UnitPass& pass) const override;
  absl::Status Again(const UnitPass& pass) const override { return norm_ ? Forward(pass) : absl::OkStatus(); }
  absl::StatusOr<device::Tensor> Backward(const UnitPass& pass, device::Tensor dy) const override;
  absl::Status AddNormGradient(const UnitPass& pass) const override;
  device::Tensor Output(const UnitPass& pass) const override {
    return norm_ ? norm_->Output(pass) : before()->Output(pass);
  }
  GradientPlace TakesGradient(const UnitPass& pass) const override { return before()->TakesGradient(pass); }

 private:
  void Turn(const UnitPass& pass, device::Tensor x, bool back) const;

  const int64_t heads_, kv_heads_, head_size_;  // in the part
  const std::vector<float> frequencies_;
  const std::optional<HeadNorm> norm_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYERS_ROTATE_H_
