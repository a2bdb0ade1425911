// One training run of one worker, through the views that it enters and leaves: the parts of the worker combined.
//
// It composes device, model, layout, memory, communicators, engine, data and checkpoints, and contains no mathematics.
// Prepare builds what no view changes; Enter builds the rest for a place in a view (view_parts.h), and Leave drops it.
// So a run can go on from a checkpoint in another view with the bits that a new process would have. It knows nothing
// about the coordinator; worker_run.h drives it from the fleet's messages.
#ifndef ZEROFLEET_WORKER_TRAINER_TRAINING_RUN_H_
#define ZEROFLEET_WORKER_TRAINER_TRAINING_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "worker/checkpoint/manifest.h"
#include "worker/device/device.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "worker/trainer/best_loss.h"
#include "worker/trainer/data_feed.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/metrics_sink.h"
#include "worker/trainer/peak_search.h"
#include "worker/trainer/save_choice.h"
#include "worker/trainer/snapshot.h"
#include "worker/trainer/snapshot_store.h"
#include "worker/trainer/state_loader.h"
#include "worker/trainer/step_trace.h"
#include "worker/trainer/view_parts.h"
#include "worker/zero/memory_plan.h"
#include "zerofleet/v1/checkpoint.pb.h"
#include "zerofleet/v1/config.pb.h"
#include "zerofleet/v1/coordinator.pb.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::trainer {

// What the ranks of a view must agree on before they train; equal on every rank.
struct ViewDigests {
  std::string layout, schedule;
};

class TrainingRun {
 public:
  // The parts that no view changes: model, data. `device` and `clock` must outlive the run. At its end the run gives up
  // the memory of `snapshots`; without a store it has one of its own. `text` is passed to DataFeed::Open. `passes`
  // belongs to a foreign model (null otherwise) and must outlive the run.
  static absl::StatusOr<std::unique_ptr<TrainingRun>> Prepare(const v1::Config& config, device::Device& device,
                                                              const Clock& clock, MetricsSink& metrics,
                                                              std::shared_ptr<SnapshotStore> snapshots = nullptr,
                                                              data::TextOptions text = {},
                                                              model::ForeignPasses* passes = nullptr);
  ~TrainingRun();
  std::string config_digest() const;
  // What this rank reads and computes with.
  Environment environment() const;
  // The part of it that a checkpoint stores: what this rank computes with, and what turns text into tokens.
  Environment StoredEnvironment() const;
  // The meter of the run's saves, kept over all views.
  std::shared_ptr<const SaveMeter> saves() const { return saves_; }
  int64_t parameters() const { return spec_.parameters(); }
  // Checks every id of the data before any step uses it (DataFeed::CheckIds).
  absl::StatusOr<DataFeed::IdCheck> CheckIds(int threads, const std::function<bool()>& cancelled) const {
    return feed_->CheckIds(threads, cancelled);
  }

  // Called before any view. `trace`, which must outlive the run, records the steps that it wants; it may be null.
  void SetTrace(StepTrace* trace) { trace_ = trace; }

  // Takes this place in a view whose communicators are `groups`; the run must not be in another view. Everything from
  // here to Report may be called only within a view.
  absl::Status Enter(const parallel::Mesh& mesh, parallel::GroupCommunicators groups);
  // Drops what Enter built, the training state included, but no snapshot. No collective may be pending: call it after
  // Finish, or after the communicators were aborted. Waits for a write in progress. Without effect outside a view.
  void Leave();
  bool in_view() const { return view_ != nullptr; }

  const parallel::Mesh& mesh() const { return view_->mesh; }
  const parallel::GroupCommunicators& groups() const { return view_->groups; }
  const coordinator::PartitionMap& partition() const { return view_->layout.partition(); }
  absl::StatusOr<ViewDigests> view_digests() const;

  // Loads this rank's state; used between Enter and Start, as often as needed.
  StateLoader loader();
  // Samples consumed by the state that was loaded; 0 if none was.
  int64_t samples_loaded() const { return view_->loaded_samples; }
  const std::string& initial_digest() const { return view_->initial_digest; }
  // Called when every rank has loaded at least weights, or, with `loaded` false, none has (the weights are then fresh):
  // completes the parameters and measures the peak. In a recovery the peak is measured briefly, and only if this
  // process has not measured it in an earlier view.
  absl::Status Start(bool loaded, const v1::Start& start);

  struct StepOutcome {
    v1::StepEvent event;
    bool stop = false;               // requested by some rank
    bool sending = false;            // some rank was still sending a snapshot when the step began
    bool save = false;               // some rank requests a checkpoint, since it is about to leave
    std::vector<std::string> notes;  // lines for the log: a step faster than the peak, ops on slow kernels
  };
  // What a rank requests of all others with a step; the step's outcome says whether any rank did.
  struct StepRequests {
    bool stop = false;     // every rank is to stop
    bool sending = false;  // this rank is sending a snapshot
    bool save = false;     // every rank is to save after the step
  };
  // Launches a step. Its outcome must be fetched by Collect, at the latest before the step after next is launched, and
  // before an evaluation, a checkpoint, a snapshot or the end.
  absl::Status Launch(int64_t step, const StepRequests& asked);
  bool HasLaunched() const { return view_->engine->launched() > 0; }
  // Whether a step's outcome may wait until the next step is launched: an asynchronous device is then never idle.
  bool MayCollectLate() const {
    return !device_.host_addressable() && view_->engine->launched() < zero::kMostLaunchedSteps;
  }
  // FailedPrecondition, with the verdict (zero::DivergenceOf), if the step has diverged; the view cannot go on then.
  absl::StatusOr<StepOutcome> Collect();
  bool EvaluatesAfter(int64_t step) const;
  // Whether histograms are made of this step; and the histograms, two for each trained tensor. Histograms is called on
  // every rank, once the step is collected.
  bool DrawsHistogramsOf(int64_t step) const;
  absl::StatusOr<std::vector<v1::HistogramEvent>> Histograms(int64_t step);
  absl::StatusOr<v1::EvaluateEvent> Evaluate(int64_t step);
  // The lowest loss so far, and whether it ends the run; only within a view, after Start.
  const BestLoss& best() const { return *best_; }
  // Called before the next save, on every rank, if the last one, of this step, could not be stored.
  void NoteFailedSave(int64_t step) { best_->SaveFailed(step); }

  // Starts saving; `written` is called from the writing thread. `waited` is the seconds for which the previous save
  // held the steps up.
  absl::Status Save(int64_t step, std::function<void(v1::ShardWritten)> written, double waited = 0);

  // Takes a snapshot of the state after `step` into the store.
  absl::StatusOr<v1::SnapshotShard> TakeSnapshot(int64_t step);

  // Waits for all operations that the last step has posted; a rank may leave only then.
  absl::Status Finish() { return view_->engine->Finish(); }

  v1::Pace pace() const;
  v1::RankReport Report(int64_t step) const;
  // What this rank's collectives were doing, for the record of a lost view.
  v1::FlightRecord Flight() const;

 private:
  TrainingRun(const v1::Config& config, model::ModelSpec spec, device::Device& device, const Clock& clock,
              MetricsSink& metrics, std::shared_ptr<SnapshotStore> snapshots)
      : config_(config),
        spec_(std::move(spec)),
        device_(device),
        clock_(clock),
        metrics_(metrics),
        snapshots_(std::move(snapshots)) {}

  SnapshotPlace PlaceInView() const;
  absl::StatusOr<zero::StepResult> CollectStep();
  absl::Status WarmUp(int64_t step);
  void ExportFigures(const StepOutcome& outcome, const zero::StepResult& result);
  void ExportDeviceMemory();
  // A step's tokens, and the micro-batches that its batch is cut into.
  int64_t TokensOf(int64_t step) const;
  zero::StepBatch BatchOf(int64_t step) const;
  v1::CheckpointManifest Manifest(int64_t step) const;

  const v1::Config config_;
  const model::ModelSpec spec_;  // the whole model's
  device::Device& device_;
  const Clock& clock_;
  MetricsSink& metrics_;
  StepTrace* trace_ = nullptr;
  std::unique_ptr<DataFeed> feed_;
  std::unique_ptr<model::Model> model_;
  Environment arithmetic_;  // set by Prepare
  const std::shared_ptr<SnapshotStore> snapshots_;
  Snapshot saved_{zero::kSnapshotRow};
  const std::shared_ptr<SaveMeter> saves_ = std::make_shared<SaveMeter>();
  std::unique_ptr<ViewParts> view_;  // null outside a view; declared after what its parts borrow
  std::optional<BestLoss> best_;     // set by Start
  v1::Receipt receipt_;              // covers the steps up to the last collected
  double memory_asked_at_ = 0;
  std::optional<PeakSearch> peak_;  // set by Prepare
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_TRAINING_RUN_H_
