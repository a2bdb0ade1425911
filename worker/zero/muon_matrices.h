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
// All of it is work on one stream, and the control is read where that work runs: on a GPU the host waits for nothing. A
// step that is skipped takes the same way, and its ops leave the state alone.
#ifndef ZEROFLEET_WORKER_ZERO_MUON_MATRICES_H_
#define ZEROFLEET_WORKER_ZERO_MUON_MATRICES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/optim/newton_schulz.h"
#include "worker/zero/updater.h"

namespace zerofleet::zero {

// Elements [begin, begin + count) of what this rank updates of a unit, and this piece's place in each vector.
struct MuonPiece {
  int unit;
  int64_t begin, count;
  const device::StepControl* control;  // where the update is computed
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
  // Every rank calls it for the same units in the same order. Later work on the stream finds the unit exchanged.
  absl::Status Exchange(int unit);
  // Waits until the last exchange is complete, and returns its failure, which Exchange may be too early to know.
  absl::Status AwaitExchange() const;
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
  // An exchange begins after what the stream was given before, and later work follows it.
  std::shared_ptr<device::Event> Reached();
  absl::Status Follow(const collective::Communicator::Pending& exchange);
  // Copies what model part `index` has of the matrix from `part` to its place in matrix_, or with `out` back to `part`.
  void MovePart(const model::TensorSpec& matrix, int index, float* part, bool out);
  // This rank's part of Newton-Schulz of the exchanged matrix.
  const float* OrthogonalOf(const model::TensorSpec& matrix);
  // The run's elements of it.
  const float* OrthogonalOf(const Run& run) { return OrthogonalOf(*run.matrix) + (run.begin - run.matrix->flat_begin); }
  static float ScaleOf(const Run& run, double learning_rate);
  void UpdateRest(const MuonPiece& piece);

  const UpdaterParts parts_;
  const TrainingState& state_;
  device::Device& device_;
  device::Stream& stream_;
  std::vector<std::vector<const model::TensorSpec*>> tensors_;  // by unit
  device::Tensor exchanged_;                                    // one whole unit, padded, for each part of the model
  float* matrix_;
  // The matrix of which OrthogonalOf's result is in memory: in matrix_, or in memory_.next where the model is in parts.
  const model::TensorSpec* orthogonal_ = nullptr;
  optim::NewtonSchulzMemory memory_;
  collective::Communicator::Pending in_data_, in_tensor_;  // the last exchange in each group
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_MUON_MATRICES_H_
