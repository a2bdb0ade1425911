// One training run on one rank, from an assigned rank to its last step: the parts of the worker combined.
//
// It composes device, model, layout, memory, communicator, engine, data and checkpoints, and contains no mathematics.
// It knows nothing about the coordinator; worker_run.h drives it from the fleet's messages.
#ifndef ZEROFLEET_WORKER_TRAINER_TRAINING_RUN_H_
#define ZEROFLEET_WORKER_TRAINER_TRAINING_RUN_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "worker/collective/communicator.h"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "worker/trainer/checkpointer.h"
#include "worker/trainer/data_feed.h"
#include "worker/trainer/metrics_sink.h"
#include "worker/trainer/peak_meter.h"
#include "worker/zero/engine.h"
#include "worker/zero/layout.h"
#include "worker/zero/memory_plan.h"
#include "zerofleet/v1/checkpoint.pb.h"
#include "zerofleet/v1/config.pb.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet {

// What the ranks must agree on before they train; equal on every rank.
struct RunDigests {
  std::string config, layout, schedule;
  int64_t parameters = 0;
};

// What rank `rank` of this configuration's run keeps, and where.
ZeroOptions ZeroOptionsOf(const v1::Config& config, int rank);

// Every buffer of that rank, as the run will reserve it. `device` has as many compute threads as the run's: scratch
// memory grows with them.
absl::StatusOr<MemoryPlan> PlanRankMemory(const v1::Config& config, int rank, Device& device);

class TrainingRun {
 public:
  // The parts that do not depend on the rank: model, data, digests. `device` and `clock` outlive the run.
  static absl::StatusOr<std::unique_ptr<TrainingRun>> Prepare(const v1::Config& config, Device& device,
                                                              const Clock& clock, MetricsSink& metrics);
  ~TrainingRun();
  const RunDigests& digests() const { return digests_; }
  // Checks every id of the data before any step uses it (DataFeed::CheckIds).
  absl::StatusOr<DataFeed::IdCheck> CheckIds(int threads, const std::function<bool()>& cancelled) const {
    return feed_->CheckIds(threads, cancelled);
  }

  // The parts that depend on the rank: layout, memory, engine.
  absl::Status Join(std::unique_ptr<Communicator> communicator, uint64_t generation);
  Communicator& communicator() { return *communicator_; }
  int rank() const { return layout_->options().rank; }

  // Reads this rank's part of a checkpoint; no collective runs, so ranks may fail independently.
  absl::Status Load(const std::string& step_dir);
  // With every rank loaded (or none, `loaded` false: fresh weights): completes the parameters, measures the peak.
  absl::Status Start(bool loaded, int64_t step);

  struct StepOutcome {
    v1::StepEvent event;
    bool stop = false;      // requested by some rank
    std::string peak_note;  // a line for the log if the step was faster than the peak
  };
  // Launches a step; `stop` asks every rank to stop. Its outcome must be fetched by Collect, at the latest before the
  // step after next is launched, and before an evaluation, a checkpoint or the end.
  absl::Status Launch(int64_t step, bool stop);
  bool HasLaunched() const { return engine_->launched() > 0; }
  // Whether a step's outcome may wait until the next step is launched: an asynchronous device is then never idle.
  bool MayCollectLate() const { return !device_.host_addressable() && engine_->launched() < kMostLaunchedSteps; }
  absl::StatusOr<StepOutcome> Collect();
  bool EvaluatesAfter(int64_t step) const;
  absl::StatusOr<v1::EvaluateEvent> Evaluate(int64_t step);

  // Starts saving; `written` is called from the writing thread.
  absl::Status Save(int64_t step, std::function<void(v1::ShardWritten)> written);

  // Waits for all operations that the last step has posted: only then may a rank leave.
  absl::Status Finish() { return engine_->Finish(); }

  v1::RankReport Report() const;

 private:
  TrainingRun(const v1::Config& config, ModelSpec spec, Device& device, const Clock& clock, MetricsSink& metrics)
      : config_(config), spec_(std::move(spec)), device_(device), clock_(clock), metrics_(metrics) {}

  ZeroOptions Options(int rank) const;
  absl::Status WarmUp(int64_t step);
  // `rounds` of a product; 0: as many as a reliable result takes.
  absl::Status MeasurePeak(int rounds);
  absl::Status MeasurePeakAgain();
  void ExportFigures(const StepOutcome& outcome, const StepResult& result);
  void ExportDeviceMemory();
  StepControl ControlOf(const v1::CheckpointManifest& manifest) const;
  v1::CheckpointManifest Manifest(int64_t step) const;

  const v1::Config config_;
  const ModelSpec spec_;
  Device& device_;
  const Clock& clock_;
  MetricsSink& metrics_;
  RunDigests digests_;
  uint64_t generation_ = 0;
  double my_peak_ = 0;  // FLOP/s
  PeakMeter peak_;      // of all ranks
  int64_t steps_done_ = 0;
  std::unique_ptr<DataFeed> feed_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ZeroLayout> layout_;
  std::unique_ptr<Arena> device_arena_, host_arena_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<ZeroEngine> engine_;
  std::unique_ptr<Checkpointer> checkpointer_;
  int64_t loaded_samples_ = 0;
  StepControl loaded_control_;
  struct LaunchedStep {
    double at, learning_rate;
  };
  std::deque<LaunchedStep> launches_;
  double collected_at_ = 0, memory_asked_at_ = 0;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_TRAINER_TRAINING_RUN_H_
