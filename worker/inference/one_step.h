// One training step of a whole model in fp32 on the CPU, in memory: its loss, its gradients, its update. Other
// trainers' steps are compared with it.
#ifndef ZEROFLEET_WORKER_INFERENCE_ONE_STEP_H_
#define ZEROFLEET_WORKER_INFERENCE_ONE_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::inference {

// Sequences of one length, one after another; a target of -1 does not count.
struct StepBatch {
  int64_t sequences = 0, time = 0;
  std::vector<int32_t> inputs, targets;
};

struct BatchGradients {
  double loss = 0;               // mean over the targets that count
  std::vector<float> gradients;  // the loss's, in the flat space of the model's table
};

// `weights` are in the flat space of the model's table. InvalidArgument for a batch without a target that counts, with
// an id that is not in the vocabulary, or longer than the model's context. `device` is the CPU.
absl::StatusOr<BatchGradients> GradientsOf(const v1::ModelConfig& model, std::vector<float>& weights,
                                           const StepBatch& batch, device::Device& device);

struct UpdateToDo {
  v1::ModelConfig model;
  v1::OptimizerConfig optimizer;  // complete; its learning rate is the step's
  bool decays_all = false;        // weight decay applies to every tensor, not to matrices and the token embedding alone
  int64_t updates = 0;            // how many the optimizer has made before this one
  // The state vectors in the order of the optimizer's row: the weights, then the others.
  std::vector<std::vector<float>> states;
};

// Updates the states with `gradients`; returns the gradients' norm before clipping.
absl::StatusOr<double> UpdateWith(std::vector<float>& gradients, UpdateToDo& update, device::Device& device);

}  // namespace zerofleet::inference

#endif  // ZEROFLEET_WORKER_INFERENCE_ONE_STEP_H_
