// Muon (Jordan et al. 2024) for the matrices of the blocks' products, wherever their states are: momentum, exchange,
// Newton-Schulz, step. Whoever has the states (muon_updater.h, host_updater.h) hands them over piece by piece.
//
// The update of a matrix depends on all of it, and both a flat partition and a tensor group cut matrices between ranks.
// So the ranks exchange the input of Newton-Schulz, each the part that it owns, in the compute type. For each unit with
// such matrices that is one all-gather in the data group, after which a rank has its part of the model whole, and in a
// tensor group one more, of all parts. Then each rank computes every matrix of which it owns a part, whole, and takes
// its own elements of the result. Every rank that has a part of a matrix computes the same bits of it, in every stage
// and at every world size. The ranks of a tensor group own parts of the same matrices: each computes them all.
//
// For each unit the calls are Direct for its pieces, Exchange for the unit, then Update for the pieces. Where the
// parameters are to be ahead of the weights (device::UpdateFactors), there are two exchanges: Direct, Exchange,
// MoveWeights, Direct (kAhead), Exchange, UpdateAhead.
//
// The memory must be readable by the host, which computes the scale of a matrix.
#ifndef ZEROFLEET_WORKER_ZERO_MUON_MATRICES_H_
#define ZEROFLEET_WORKER_ZERO_MUON_MATRICES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "worker/optim/newton_schulz.h"
#include "worker/zero/updater.h"

namespace zerofleet::zero {

// Elements [begin, begin + count) of what this rank updates of a unit, and this piece's place in each vector.
struct MuonPiece {
  int unit;
  int64_t begin, count;
  const device::StepControl& control;
  double learning_rate;
  device::Tensor gradient;
  optim::StateTensors states;
  device::Tensor parameter = {};  // stored by Update and UpdateAhead
};

// Which direction of the matrices: the step's, or that of one further step with the same gradient.
enum class MuonDirection : uint8_t { kOfStep, kAhead };

class MuonMatrices {
 public:
  static constexpr size_t kMomentum = 1;  // index of the momentum's state vector

  // Memory for the exchange and for Newton-Schulz, in the space where the update is computed.
  static std::vector<memory::MemoryRow> Rows(const ZeroLayout& layout);

  // Computes on `device`, in the order of `stream`; both, and what `parts` and `state` refer to, outlive it.
  MuonMatrices(const UpdaterParts& parts, const TrainingState& state, device::Device& device, device::Stream& stream);

  bool InUnit(int unit) const { return parts_.layout.whole_matrices().in_unit[static_cast<size_t>(unit)]; }

  // Computes the direction of the piece's matrices and puts it in its place in the unit that is exchanged; kOfStep also
  // updates their momentum.
  void Direct(const MuonPiece& piece, MuonDirection direction);
  // Every rank calls it for the same units in the same order.
  absl::Status Exchange(int unit);
  // Moves the matrices' weights by what was exchanged, and updates the average of the weights.
  void MoveWeights(const MuonPiece& piece);
  // MoveWeights, then the matrices' parameters, and everything that AdamW updates.
  void Update(const MuonPiece& piece);
  // Called after MoveWeights and the exchange of kAhead: makes the matrices' parameters, and does everything that AdamW
  // updates.
  void UpdateAhead(const MuonPiece& piece);

 private:
  // Elements [begin, end) of the flat space: a part of one matrix, or elements that AdamW updates.
  struct Run {
    int64_t begin, end;
    const model::TensorSpec* matrix;  // null: AdamW updates the run
  };
  std::vector<Run> RunsOf(int unit, int64_t begin, int64_t count) const;
  // Calls `use(run, elements before it in the piece)` for the piece's runs of matrices, or for all its others.
  using Use = std::function<void(const Run& run, int64_t at)>;
  void ForRuns(const MuonPiece& piece, bool of_matrices, const Use& use) const;
  // Where the tensor of model part `part` is in the exchanged unit.
  device::Tensor Exchanged(const model::TensorSpec& tensor, int part) const;
  // Newton-Schulz of the exchanged matrix: whole, in matrix_.
  const float* OrthogonalOf(const model::TensorSpec& matrix);
  // Calls `move(first, direction, count)` for the run's elements from `first` on, in pieces that are contiguous in the
  // whole matrix.
  using Move = std::function<void(int64_t first, const float* direction, int64_t count)>;
  void ForElements(const Run& run, const Move& move);
  static float ScaleOf(const Run& run, double learning_rate);
  void UpdateRest(const MuonPiece& piece);

  const UpdaterParts parts_;
  const TrainingState& state_;
  device::Device& device_;
  device::Stream& stream_;
  std::vector<std::vector<const model::TensorSpec*>> tensors_;  // by unit
  device::Tensor exchanged_;                                    // one whole unit, padded, for each part of the model
  float* matrix_;
  const model::TensorSpec* orthogonal_ = nullptr;  // the matrix whose Newton-Schulz result is in matrix_
  optim::NewtonSchulzMemory memory_;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_MUON_MATRICES_H_
