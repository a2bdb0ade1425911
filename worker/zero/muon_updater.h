// Muon (Jordan et al. 2024): matrices of blocks' products by Newton-Schulz of their momentum, all else by AdamW.
//
// The update of a matrix depends on all of it, and a flat partition cuts matrices between ranks. So the ranks exchange
// what Newton-Schulz takes, each the part that it owns: one all-gather for each unit with such matrices, in the compute
// type. Then each rank works on the matrices of which it owns a part, all of each, and takes its own elements of the
// result. Every rank that has a part of a matrix computes the same bits of it, in every stage and at every world size.
//
// In memory that the host reads: it decides the scale of a matrix.
#ifndef ZEROFLEET_WORKER_ZERO_MUON_UPDATER_H_
#define ZEROFLEET_WORKER_ZERO_MUON_UPDATER_H_

#include <cstdint>
#include <vector>

#include "worker/optim/newton_schulz.h"
#include "worker/zero/device_updater.h"

namespace zerofleet::zero {

class MuonUpdater : public DeviceUpdater {
 public:
  // TrainingState's, and what the exchange and Newton-Schulz take.
  static std::vector<memory::MemoryRow> Rows(const ZeroLayout& layout);

  explicit MuonUpdater(const UpdaterParts& parts);

  void SetLearningRate(double learning_rate) override { learning_rate_ = learning_rate; }
  absl::Status Update(const device::StepControl* control, device::Tensor gradients, device::Tensor parameters,
                      bool delayed) override;

 private:
  // A run of what this rank updates of a unit: a part of a matrix, or what AdamW updates.
  struct Run {
    int64_t flat_begin, flat_end;
    const model::TensorSpec* matrix;  // null: AdamW's
  };
  std::vector<Run> RunsOf(int unit) const;
  // What a step has for one unit.
  struct Step {
    const device::StepControl& control;
    ZeroLayout::Piece piece;
    int64_t unit_begin;
    device::Tensor gradients, parameters;
  };
  // Puts the momentum's direction of a part of a matrix in its place in the exchanged unit.
  void AddMomentum(const Step& step, const Run& run);
  absl::Status Exchange(int unit);
  void UpdateMatrix(const Step& step, const Run& run);
  void UpdateRest(int unit, const Step& step, const Run& run);

  const UpdaterParts parts_;
  std::vector<std::vector<Run>> runs_;  // by unit
  device::Tensor exchanged_;            // a whole unit, padded
  float* matrix_;
  optim::NewtonSchulzMemory memory_;
  double learning_rate_ = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_MUON_UPDATER_H_
