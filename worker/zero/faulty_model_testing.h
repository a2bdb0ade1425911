// A model that computes with a flipped bit, in one pass or from some pass on: what a rank's hardware may do in silence.
#ifndef ZEROFLEET_WORKER_ZERO_FAULTY_MODEL_TESTING_H_
#define ZEROFLEET_WORKER_ZERO_FAULTY_MODEL_TESTING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"

namespace zerofleet::zero {

enum class FaultyPart { kWeights, kActivations, kGradient };

// The bit is one of a mantissa's upper three: a flipped low bit may be rounded away, and a flipped exponent bit may end
// training by itself. The tensor is one whose every element has an effect in every pass: not a bias (a key's has none),
// and not the token embedding (which stage 3 gathers for the lookup alone).
struct Fault {
  FaultyPart part = FaultyPart::kWeights;
  int64_t pass = 0;              // number of the rank's training pass, from 0
  bool stays = false;            // the fault is in every pass from there on
  uint64_t seed = 0;             // chooses tensor, element and bit
  int64_t activation_bytes = 0;  // bytes of activations, from the first on, that the fault may change
};

class FaultyModel : public model::Model, private model::ParameterSource {
 public:
  FaultyModel(std::unique_ptr<model::Model> inner, const model::ModelSpec& spec, const Fault& fault)
      : model::Model(*inner), inner_(std::move(inner)), fault_(fault), tensor_(PickTensor(spec, fault)) {
    first_ = tensor_.flat_begin - spec.units()[tensor_.unit].flat_begin;
  }

  int64_t ActivationBytes() const override { return inner_->ActivationBytes(); }
  int64_t HostActivationBytes() const override { return inner_->HostActivationBytes(); }
  device::LinkTraffic link() const override { return inner_->link(); }
  double RecomputedFlopsPerToken() const override { return inner_->RecomputedFlopsPerToken(); }
  int64_t ScratchBytes() const override { return inner_->ScratchBytes(); }
  std::vector<memory::Piece> ActivationPieces() const override { return inner_->ActivationPieces(); }
  std::vector<memory::Piece> ScratchPieces() const override { return inner_->ScratchPieces(); }
  int64_t BandBytes() const override { return inner_->BandBytes(); }
  int64_t CacheBytes(int64_t capacity) const override { return inner_->CacheBytes(capacity); }
  void SetTensorGroup(model::TensorGroup* group) override { inner_->SetTensorGroup(group); }

  absl::Status Train(const model::MicroBatch& batch, const float* gradient_scale, model::ParameterSource& parameters,
                     device::Stream& stream, double* loss_sum, const std::function<void()>& on_backward) override {
    inner_->SetMemory(memory_);
    below_ = &parameters;
    const int64_t pass = passes_++;
    armed_ = pass == fault_.pass || (fault_.stays && pass > fault_.pass);
    return inner_->Train(batch, gradient_scale, *this, stream, loss_sum, [&] {
      FlipABit(FaultyPart::kActivations, {memory_.activations, device::DType::kF32}, fault_.activation_bytes / 4);
      on_backward();
    });
  }
  absl::Status Evaluate(const model::MicroBatch& batch, model::ParameterSource& parameters, device::Stream& stream,
                        double* loss_sum) override {
    inner_->SetMemory(memory_);
    return inner_->Evaluate(batch, parameters, stream, loss_sum);
  }
  absl::Status Logits(const model::MicroBatch& batch, model::ParameterSource& parameters, device::Stream& stream,
                      device::Tensor logits) override {
    inner_->SetMemory(memory_);
    return inner_->Logits(batch, parameters, stream, logits);
  }

 private:
  absl::StatusOr<device::Tensor> Acquire(int unit) override {
    ZF_ASSIGN_OR_RETURN(const device::Tensor weights, below_->Acquire(unit));
    if (unit == tensor_.unit) FlipABit(FaultyPart::kWeights, weights.Offset(first_), tensor_.elements());
    return weights;
  }
  void Release(int unit) override { below_->Release(unit); }
  absl::StatusOr<float*> Gradient(int unit) override {
    ZF_ASSIGN_OR_RETURN(float* const sums, below_->Gradient(unit));
    if (unit == tensor_.unit) gradient_ = {sums, device::DType::kF32};
    return sums;
  }
  absl::StatusOr<device::Tensor> WrittenGradient(int unit) override {
    ZF_ASSIGN_OR_RETURN(const device::Tensor written, below_->WrittenGradient(unit));
    if (unit == tensor_.unit && written) gradient_ = written;
    return written;
  }
  absl::Status DeliverGradient(int unit) override {
    if (unit == tensor_.unit) FlipABit(FaultyPart::kGradient, gradient_.Offset(first_), tensor_.elements());
    return below_->DeliverGradient(unit);
  }

  static model::TensorSpec PickTensor(const model::ModelSpec& spec, const Fault& fault) {
    std::vector<model::TensorSpec> candidates;
    for (const model::TensorSpec& tensor : spec.tensors()) {
      if (tensor.init != model::Init::kZeros && tensor.flat_begin > 0) candidates.push_back(tensor);
    }
    return candidates[fault.seed % candidates.size()];
  }

  // Flips at most one bit in a pass.
  void FlipABit(FaultyPart part, device::Tensor values, int64_t elements) {
    if (part != fault_.part || !std::exchange(armed_, false)) return;
    const uint64_t bytes = static_cast<uint64_t>(device::DTypeBytes(values.dtype));
    const uint64_t element = fault_.seed / 64 % static_cast<uint64_t>(elements);
    const uint64_t bit = 8 * bytes - 12 + fault_.seed % 3;
    static_cast<unsigned char*>(values.data)[element * bytes + bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
  }

  const std::unique_ptr<model::Model> inner_;
  const Fault fault_;
  const model::TensorSpec tensor_;
  int64_t first_ = 0;  // the tensor's first element, counted in its unit
  model::ParameterSource* below_ = nullptr;
  device::Tensor gradient_;  // the tensor's unit's, in this pass
  int64_t passes_ = 0;
  bool armed_ = false;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_FAULTY_MODEL_TESTING_H_
