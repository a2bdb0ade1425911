// The optimizers, as rows of one table: the state vectors that each keeps, its keys in the configuration, its update.
//
// Everything that depends on the choice of an optimizer reads its row: memory plan, training state, checkpoint files,
// configuration. To add one: a device op (ops.h) with its hyperparameters in step_control.h, and a row in optimizer.cc.
#ifndef ZEROFLEET_WORKER_OPTIM_OPTIMIZER_H_
#define ZEROFLEET_WORKER_OPTIM_OPTIMIZER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "worker/device/dtype.h"
#include "worker/device/ops.h"
#include "worker/device/step_control.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::optim {

// One value per parameter, kept from step to step.
struct OptimizerVector {
  const char* name;  // as in PyTorch; used in the memory plan and in a rank's checkpoint file
  device::DType dtype;
  enum class Initial { kWeights, kZeros } initial;
  // Marks the average of the weights (ema): its memory has a category of its own, and is on the host wherever the other
  // vectors are.
  bool is_average = false;
};

// Pieces of the state vectors that hold the same elements, in the table's order.
using StateTensors = absl::InlinedVector<device::Tensor, 4>;

// What an update works on: one piece of the flat model, in device memory.
struct UpdatePiece {
  std::span<const device::DecaySegment> segments;
  const device::StepControl* control;
  device::Tensor gradient;
  StateTensors states;
  device::Tensor parameter;  // in the compute type; the result is stored here too
  bool assigned = false;     // the weights become the gradient as it is (model::TensorSpec::assigned)
};

// A number of the configuration's optimizer section.
struct OptimizerKey {
  const char* name;
  double (v1::OptimizerConfig::*get)() const;
  void (v1::OptimizerConfig::*set)(double);
  double value_if_absent;
  bool (*fits)(double value);
  const char* wanted;  // for messages: "must be >= 0"
};

struct OptimizerRow {
  const char* name;
  std::vector<OptimizerVector> vectors;  // the first is the fp32 master weights
  std::vector<OptimizerKey> keys;        // all its keys; those of other optimizers do not apply to it
  // Whether it updates matrices whole: its updater exchanges them, and `update` is for everything else.
  bool whole_matrices = false;
  void (*update)(device::Ops& ops, device::Stream& stream, const UpdatePiece& piece);

  // Whether the last vector is the average of the weights.
  bool averages() const { return vectors.back().is_average; }
  // The piece's update, then its average's; the average of what is assigned is its newest value.
  void Apply(device::Ops& ops, device::Stream& stream, const UpdatePiece& piece) const;

  // K of ZeRO §3.1: bytes of optimizer states per parameter.
  int64_t StateBytesPerParameter() const;
  bool HasKey(const std::string& name) const;

 private:
  void Assign(device::Ops& ops, device::Stream& stream, const UpdatePiece& piece) const;
};

// All rows; the first is the configuration's default.
std::span<const OptimizerRow> Optimizers();
std::vector<std::string> OptimizerNames();
// The row that keeps no average. InvalidArgument, with the known names, for any other name.
absl::StatusOr<const OptimizerRow*> FindOptimizer(const std::string& name);
// The row of this configuration's optimizer: with `ema` one that has the average as its last vector.
absl::StatusOr<const OptimizerRow*> OptimizerOf(const v1::Config& config);

}  // namespace zerofleet::optim

#endif  // ZEROFLEET_WORKER_OPTIM_OPTIMIZER_H_
