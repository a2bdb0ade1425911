// See one_step.h.
#include "worker/inference/one_step.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/device/step_control.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "worker/optim/loss_scaling.h"
#include "worker/optim/optimizer.h"
#include "worker/optim/step_rule.h"

namespace zerofleet::inference {
namespace {

// Weights and gradients of all units, which lie one after another in memory.
class WholeParameters : public model::ParameterSource {
 public:
  WholeParameters(const model::ModelSpec& spec, float* weights, float* gradients)
      : spec_(spec), weights_(weights), gradients_(gradients) {}

  absl::StatusOr<device::Tensor> Acquire(int unit) override {
    return device::Tensor{weights_ + spec_.units()[unit].flat_begin, device::DType::kF32};
  }
  void Release(int) override {}
  // Micro-batches add to the gradients of those before them.
  absl::StatusOr<float*> Gradient(int unit) override { return gradients_ + spec_.units()[unit].flat_begin; }
  absl::Status DeliverGradient(int) override { return absl::OkStatus(); }

 private:
  const model::ModelSpec& spec_;
  float* const weights_;
  float* const gradients_;
};

absl::StatusOr<int64_t> CountTargets(const StepBatch& batch, const v1::ModelConfig& model) {
  if (batch.time < 1 || batch.time > model.context()) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences of ", batch.time, " tokens; the model takes 1 to ", model.context()));
  }
  int64_t counted = 0;
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    const int32_t input = batch.inputs[i], target = batch.targets[i];
    if (input < 0 || input >= model.vocab() || target < -1 || target >= model.vocab()) {
      return absl::InvalidArgumentError(absl::StrCat("element ", i, " has token ", input, " and target ", target,
                                                     "; the vocabulary is of ", model.vocab()));
    }
    counted += target >= 0 ? 1 : 0;
  }
  if (counted == 0) return absl::InvalidArgumentError("no target counts");
  return counted;
}

}  // namespace

absl::StatusOr<BatchGradients> GradientsOf(const v1::ModelConfig& model, std::vector<float>& weights,
                                           const StepBatch& batch, device::Device& device) {
  ZF_CHECK(device.host_addressable());
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(model));
  ZF_CHECK(static_cast<int64_t>(weights.size()) == spec.parameters());
  ZF_ASSIGN_OR_RETURN(const int64_t counted, CountTargets(batch, model));
  ZF_ASSIGN_OR_RETURN(
      const std::unique_ptr<model::Model> network,
      model::Model::Create(model, {.dtype = device::DType::kF32, .sequences = 1, .time = batch.time}, device));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Reservation> activations,
                      device.Reserve(network->ActivationBytes()));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Reservation> scratch, device.Reserve(network->ScratchBytes()));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  network->SetMemory({.activations = activations->data(), .scratch = scratch->data()});
  BatchGradients found;
  found.gradients.resize(weights.size());
  WholeParameters parameters(spec, weights.data(), found.gradients.data());
  device::StepControl control;
  device::BeginStep(static_cast<double>(counted), control);
  double loss_of_all = 0;
  for (int64_t s = 0; s < batch.sequences; ++s) {
    const model::MicroBatch one = {.sequences = 1,
                                   .time = batch.time,
                                   .inputs = batch.inputs.data() + s * batch.time,
                                   .targets = batch.targets.data() + s * batch.time};
    double loss_sum = 0;
    ZF_RETURN_IF_ERROR(network->Train(one, &control.gradient_scale, parameters, *stream, &loss_sum, [] {}));
    loss_of_all += loss_sum;
  }
  ZF_RETURN_IF_ERROR(stream->Synchronize());
  found.loss = loss_of_all / static_cast<double>(counted);
  return found;
}

absl::StatusOr<double> UpdateWith(std::vector<float>& gradients, UpdateToDo& update, device::Device& device) {
  ZF_CHECK(device.host_addressable());
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(update.model));
  ZF_ASSIGN_OR_RETURN(const optim::OptimizerRow* const row, optim::FindOptimizer(update.optimizer.name()));
  ZF_CHECK(update.states.size() == row->vectors.size());
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  device::StepControl control;
  control.updates = update.updates;
  device::StepScalars total;
  for (const float gradient : gradients) total.squared_norm += static_cast<double>(gradient) * gradient;
  const double learning_rate = update.optimizer.learning_rate();
  device::DecideStep(total, optim::StepRuleOf(update.optimizer, 1, learning_rate, optim::kFixedLossScaling), control);
  std::vector<device::DecaySegment> segments = optim::DecaySegments(spec, 0, spec.parameters());
  if (update.decays_all) segments = {{0, spec.parameters(), true}};
  float* const weights = update.states.front().data();
  optim::UpdatePiece piece{.segments = segments,
                           .control = &control,
                           .gradient = {gradients.data(), device::DType::kF32},
                           .states = {},
                           .parameter = {weights, device::DType::kF32}};
  for (std::vector<float>& state : update.states) piece.states.push_back({state.data(), device::DType::kF32});
  row->update(device.ops(), *stream, piece);
  ZF_RETURN_IF_ERROR(stream->Synchronize());
  return control.grad_norm;
}

}  // namespace zerofleet::inference
