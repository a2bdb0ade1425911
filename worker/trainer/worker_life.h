// One worker's life, from Hello to the end of the run; RunWorker starts it.
//
// Its code is in three files: worker_life.cc has what happens between views, and waiting for messages;
// worker_life_view.cc what happens in a view; worker_life_saves.cc the saves and the handling of their outcomes.
#ifndef ZEROFLEET_WORKER_TRAINER_WORKER_LIFE_H_
#define ZEROFLEET_WORKER_TRAINER_WORKER_LIFE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "worker/collective/endpoint.h"
#include "worker/device/device.h"
#include "worker/trainer/fleet_session.h"
#include "worker/trainer/metrics_sink.h"
#include "worker/trainer/snapshot_rounds.h"
#include "worker/trainer/training_run.h"
#include "worker/trainer/worker_run_options.h"
#include "worker/trainer/worker_status.h"

namespace zerofleet::trainer {

inline constexpr double kPollSeconds = 0.1;

// One try to save a step. A rank's tries are made in ascending order.
struct SaveTry {
  int64_t step = -1;
  int retry = 0;
  auto operator<=>(const SaveTry&) const = default;  // NOLINT(modernize-use-nullptr): of its own making
};

class WorkerLife {
 public:
  WorkerLife(const WorkerRunOptions& options, FleetSession& session, WorkerStatus& status, MetricsSink& metrics,
             const Clock& clock)
      : options_(options),
        session_(session),
        status_(status),
        metrics_(metrics),
        clock_(clock),
        rounds_(*options.snapshots, options.peers, [this](const std::string& line) { TellPeople(line); }) {}

  ~WorkerLife() { status_.SetGroups(nullptr); }

  // Whether this worker has left while the run goes on: no fault, and nothing to report.
  bool left() const { return left_; }

  absl::StatusOr<WorkerRunResult> Run();

 private:
  absl::StatusOr<WorkerRunResult> RunToTheEnd();

  absl::Status Join();
  absl::Status Prepare(const v1::Config& config);
  // From Ready to Complete, or to the end of the view: see LeaveView.
  absl::Status TakePartInAView();
  // Called after `why` ended a view: drops what belonged to it, once the next view is announced. Returns `why`, or why
  // the session ended, if there will be no next view.
  absl::Status LeaveView(const absl::Status& why);
  absl::Status MeetOthers();
  absl::Status Enter(const v1::Assignment& assignment, uint64_t generation);
  absl::StatusOr<v1::Peers> Ask(const v1::PeersWanted& wanted);
  absl::Status LoadUntilStart();
  absl::Status Load(const v1::Load& load);
  absl::Status Restore(const v1::SnapshotId& snapshot, const std::string& peer);
  absl::Status TakeSnapshotIfDue(int64_t step);
  // Sends a line to whoever watches the run.
  void TellPeople(const std::string& line);
  void TellStart(bool resumed) const;
  absl::Status TrainToTheEnd();
  bool SavesAfter(int64_t step) const;
  // Whether something after this step needs its outcome, and that of all before it.
  bool Settles(int64_t step) const {
    return SavesAfter(step) || run_->EvaluatesAfter(step) || run_->DrawsHistogramsOf(step) || rounds_.Due(step);
  }
  // What some rank has requested of all, in a step that was collected.
  struct Asked {
    bool stop = false, save = false;
  };
  absl::Status CollectStep(Asked* asked);
  absl::Status AfterStep(int64_t step, const Asked& asked);
  absl::Status SaveWhatWasResumed();
  absl::Status Save(const SaveTry& save);
  absl::Status HandleWaitingMessages();
  void HandleOutcome(const v1::CheckpointOutcome& outcome);
  absl::Status AwaitOutcome();
  absl::Status CommitTheLastSave();
  absl::Status Pause(double seconds);
  absl::Status Finish();

  // Returns the next message of this kind, or Complete for a member without a rank, such as a spare; handles others
  // that arrive in between. Aborted for a Regroup that is not awaited.
  absl::StatusOr<v1::CoordinatorMessage> Await(v1::CoordinatorMessage::BodyCase kind);
  absl::Status Regrouped(const v1::CoordinatorMessage& message);
  absl::Status Send(v1::WorkerMessage message) { return session_.Send(std::move(message)); }
  absl::Status NoticeSignal();
  // The error after a signal that came while this worker was not training.
  absl::Status SignalledEarly();
  static absl::Status StoppedEarly(const std::string& reason) {
    return absl::CancelledError(absl::StrCat("stopped before training began: ", reason));
  }
  // Cancelled once the checkpoint that this worker requested before leaving is settled.
  absl::Status LeaveIfSaved();

  const WorkerRunOptions& options_;
  FleetSession& session_;
  WorkerStatus& status_;
  MetricsSink& metrics_;
  const Clock& clock_;
  v1::Config config_;
  std::string run_name_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<collective::CollectiveEndpoint> endpoint_;
  std::unique_ptr<TrainingRun> run_;
  SnapshotRounds rounds_;
  std::string replica_holder_;      // the service address in this view; empty: none
  bool sending_somewhere_ = false;  // some rank was sending a snapshot when the last step collected began
  SaveTry saved_, settled_;         // in this view: the last save that began, and the last with a known outcome
  int64_t committed_step_ = -1;     // step of the last committed save in this view
  bool stop_ = false, training_ = false;
  bool assigned_ = false;                   // has a place in a view, whether or not it has entered it
  bool regroup_ = false;                    // the coordinator has ended the view
  std::optional<v1::FlightRecord> flight_;  // record of the view that was left
  bool told_signal_ = false;
  bool asks_for_save_ = false;           // requests a checkpoint before it leaves
  std::optional<SaveTry> parting_save_;  // the checkpoint that it requested
  bool left_ = false;
  bool over_ = false;  // the run had ended when this worker joined
  WorkerRunResult result_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_WORKER_LIFE_H_
