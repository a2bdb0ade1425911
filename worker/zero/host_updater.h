// The optimizer's states in host memory, updated by the host's cores (ZeRO-Offload, Ren et al. 2021, §4 and §5.1).
//
// Across the link goes only what the paper's cut leaves (§3.2), in the compute type: a gradient goes to the host when
// its unit has been reduced, and a parameter comes back when it has been updated. In a 2-byte type these are 4 bytes a
// step for each parameter that this rank owns. The update runs tile by tile: while one is computed, the previous one is
// copied to the device. Where the host reaches the device's memory (Device::host_addressable), it stores a parameter
// there directly instead of in a tile, and counts those bytes like a copy's. States that rest in a file (state_file.h)
// are read into memory tile by tile, and written back. States that stay on the device (ZeroLayout::StaysOnDevice) are
// updated there, and neither their gradients nor their parameters cross the link.
//
// A step may be updated before it is decided (speculation.h): each unit as soon as its gradient is there. The device
// gets the parameters only once the step is decided, so that it never sees any that are undone. Units whose turn comes
// after the decision are left to the update, whose order is that of the next forward pass.
//
// An optimizer of whole matrices (muon_matrices.h) has the ranks exchange a unit between two passes over its tiles. Its
// jobs are posted by FinishUnit, which every rank calls for the units in their order, and the exchange happens in that
// call: on a thread, the order of the exchange among other collectives could differ between ranks. States that stay on
// the device are then updated by the host, with the rest of their unit.
//
// All of this runs as jobs in one queue, on two streams of the updater's own. Where the device is not the host's own
// memory, the queue has a thread, which runs beside the backward pass and the next forward pass. Otherwise jobs run in
// the calls that wait for them. Updates before the decision are in a queue of their own: the host may go on with the
// backward pass as soon as a gradient's copy is enqueued.
//
// A late update (§5.2) on such a device is computed on a thread of its own while the whole next step runs, from
// gradients in host memory, in whose place its parameters are left. They are sent when that step has ended, since its
// passes use the older ones. So a step takes the longer of two times, the device's and the host's.
#ifndef ZEROFLEET_WORKER_ZERO_HOST_UPDATER_H_
#define ZEROFLEET_WORKER_ZERO_HOST_UPDATER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/zero/job_queue.h"
#include "worker/zero/muon_matrices.h"
#include "worker/zero/speculation.h"
#include "worker/zero/state_file.h"
#include "worker/zero/state_tiles.h"
#include "worker/zero/updater.h"

namespace zerofleet::zero {

class HostUpdater : public Updater {
 public:
  static std::vector<memory::MemoryRow> Rows(const ZeroLayout& layout);

  explicit HostUpdater(const UpdaterParts& parts);
  ~HostUpdater() override;

  TrainingState& state() override { return state_; }
  void SetLearningRate(double learning_rate) override { steps_[filling_].learning_rate = learning_rate; }
  absl::Status Initialize(uint64_t seed) override;
  void Speculate(const device::StepControl* before, const device::StepRule& rule) override;
  void ExpectGradient(int unit, device::Tensor gradient, const collective::Communicator::Pending& reduced) override;
  absl::Status TakeGradient(int unit, device::Tensor gradient) override;
  absl::Status Update(const device::StepControl* control, device::Tensor gradients, device::Tensor parameters,
                      bool delayed) override;
  absl::StatusOr<bool> Flush(device::Tensor parameters) override;
  bool updates_behind() const override { return !parts_.device.host_addressable(); }
  absl::Status FinishUnit(int unit) override;
  absl::Status Publish(device::Tensor parameters, size_t vector) override;
  LinkTraffic link() const override;

 private:
  // Memory of one tile of updated parameters, and the copy to the device that still reads it. The plan does not know
  // the device, so it has this memory even where the host can write the device's.
  struct Tile {
    device::Tensor memory;
    std::shared_ptr<device::Event> sent;
  };
  static constexpr int kTiles = 2;
  static bool NeedsTiles(const ZeroLayout& layout) { return !layout.parameters_on_host() || layout.speculates(); }

  // A step's gradients (those of the states on the host, in their order), its control and its learning rate. There are
  // two where steps are delayed: one is held back while the other fills.
  struct Step {
    device::Tensor gradients;
    device::StepControl* decided = nullptr;  // the control, in host memory that the device copies it to
    device::StepControl control = {};        // a copy that the thread of late updates has made
    double learning_rate = 0;
  };
  // How an update begins.
  struct Beginning {
    int step;                            // index into steps_, or kNone
    device::Tensor at_rest, parameters;  // on the device
    bool flushes = false;  // no step is held back afterwards, and the parameters become the weights themselves
    bool looks_ahead = false;
  };
  static constexpr int kNone = -1;  // no Step

  // Where the host keeps the gradient of the state at this offset.
  device::Tensor GradientAt(const device::Tensor& gradients, int64_t state_offset) const {
    return gradients.Offset(state_offset - parts_.layout.states_on_device());
  }
  absl::Status CopyDown(int step, int unit, device::Tensor gradient);
  // Makes the unit's parameters from a state vector (0: the master weights), and sends them.
  absl::Status SendMaster(int unit, device::Tensor parameters, size_t vector = 0);
  // Whether a unit may be updated before its step is decided. It may not where the ranks exchange its matrices and some
  // of its states stay on the device: only the host's states can be put back.
  bool MayGuess(int unit) const;
  // Called in jobs, when the unit's copy is enqueued: posts its update before the decision, if it may be guessed.
  void PostAhead(int unit);
  // Once the unit's gradient is there, updates its states as guessed, not its parameters; does nothing if the step is
  // decided by then.
  absl::Status UpdateAhead(int unit, const device::Event& gradient_there);
  bool IsDecided() const;
  bool IsAhead(int unit) const { return is_ahead_ && guessed_[unit]; }
  void StartUpdate(const Beginning& beginning);
  absl::Status ReadControl(const Beginning& beginning, double learning_rate, const device::Event& decided);
  // Makes the unit's parameters tile by tile with `make(tile, to)`, and sends each tile to its place in `parameters`;
  // where the host can write that place itself, the tile is made there.
  using Make = std::function<absl::Status(size_t tile, device::Tensor to)>;
  absl::Status SendUnit(int unit, device::Tensor parameters, const Make& make);
  absl::Status UpdateUnit(int unit);
  // For late updates beside the next step: computes the updates of a step whose gradients are on the host, each unit
  // as soon as its own is there; and sends a unit's parameters once it is computed.
  void StartComputing(int step);
  absl::Status ComputeUnit(int step, int unit);
  absl::Status SendComputed(int step, int unit, int64_t computed, device::Tensor parameters);
  // Updates the tile's states, and makes its parameters.
  absl::Status UpdateTile(const device::StepControl& control, const device::Tensor& gradients, size_t tile,
                          device::Tensor to);

  // For an optimizer of whole matrices: what FinishUnit does before UpdateUnit.
  bool ExchangesUnit(int unit) const { return matrices_ && matrices_->InUnit(unit); }
  absl::Status PrepareMatrices(int unit);
  absl::Status DirectAndExchange(int unit, MuonDirection direction);
  // A tile's share of a pass over its unit's matrices.
  absl::Status DirectTile(const device::StepControl& control, const device::Tensor& gradients, size_t tile,
                          MuonDirection direction);
  absl::Status MoveTile(size_t tile);
  MuonPiece PieceOf(const device::StepControl& control, const device::Tensor& gradients, size_t tile,
                    const optim::StateTensors& states) const;
  // The part of a unit that stays on the device; waits until no save reads it any more.
  MuonPiece StayingPiece(int unit) const;

  // Calls `use` with the tile's states, those of `vectors`; they stay in memory until `use` has returned and the work
  // that it enqueued is done.
  absl::Status WithStates(size_t tile, StateFile::Vectors vectors, bool changes,
                          const std::function<void(const optim::StateTensors&)>& use);
  // Called in jobs: waits for the event; Cancelled when the updater is about to be destroyed.
  absl::Status Await(const device::Event& event) const;
  void Count(LinkTraffic::Direction LinkTraffic::*direction, int64_t bytes);
  // Posts `job`, which enqueues work on `stream`.
  struct UnitJob {
    int64_t number = 0;
    std::shared_ptr<device::Event> done;  // recorded after the job's work
  };
  void Post(UnitJob& unit_job, const std::unique_ptr<device::Stream>& stream, JobQueue::Job job);

  const UpdaterParts parts_;
  device::Device& host_;
  const std::unique_ptr<device::Stream> host_stream_;
  const std::vector<StateTile> state_tiles_;
  std::vector<size_t> first_tile_;  // by unit; then the number of all tiles
  std::optional<StateFile> file_;
  TrainingState state_;
  std::optional<MuonMatrices> matrices_;
  std::vector<Step> steps_;
  int filling_ = 0, held_ = kNone;  // indices into steps_
  std::array<Tile, kTiles> tiles_;
  int next_tile_ = 0;
  std::unique_ptr<device::Stream> down_, up_;
  std::optional<Speculation> speculation_;
  device::StepControl* before_ = nullptr;  // what a guess starts from, in host memory that the device copies it to
  bool guesses_ = false;                   // whether the step that is being launched is guessed
  int64_t ahead_ = 0;                      // the last job in computing_ of a step that is guessed; used by jobs
  std::vector<bool> guessed_;              // by unit: whether its states are updated as guessed
  // State of the step that is being updated.
  device::StepControl control_;
  bool is_ahead_ = false;  // the guess was right: guessed units' states are already updated
  bool flushes_ = false;
  double learning_rate_ = 0;
  device::Tensor gradients_;
  device::Tensor at_rest_, parameters_;  // on the device
  bool looks_ahead_ = false;             // used by the thread that calls FinishUnit, not by jobs

  std::vector<bool> expected_;  // by unit: whether ExpectGradient was called in this step
  std::atomic<bool> stopping_ = false;
  mutable absl::Mutex mutex_;
  std::shared_ptr<device::Event> decided_ ABSL_GUARDED_BY(mutex_);  // in a step that is guessed, null until Update
  LinkTraffic link_ ABSL_GUARDED_BY(mutex_);
  std::vector<UnitJob> taken_, updated_;  // by unit: the jobs that copy its gradient and its parameters in this step
  const bool computes_beside_;            // whether late updates are computed beside the next step
  std::vector<int64_t> computed_;         // by unit: the job that has computed its last late update
  absl::Status streams_made_;
  JobQueue computing_;  // of late updates beside the next step, and of updates before the decision
  JobQueue jobs_;       // last: its thread uses what is above
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_HOST_UPDATER_H_
