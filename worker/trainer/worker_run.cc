// One worker's life, and the report of its failure; see worker_run.h.
#include "worker/trainer/worker_run.h"

#include <utility>

#include "worker/trainer/failure_report.h"
#include "worker/trainer/worker_life.h"

namespace zerofleet::trainer {

absl::StatusOr<WorkerRunResult> RunWorker(const WorkerRunOptions& options, FleetSession& session, WorkerStatus& status,
                                          MetricsSink& metrics, const Clock& clock) {
  WorkerLife run(options, session, status, metrics, clock);
  absl::StatusOr<WorkerRunResult> result = run.Run();
  // The failure is reported before the run is torn down: that waits for the device, and the report should not.
  if (!result.ok() && !run.left()) {
    // If the session is what failed, the coordinator knows already and Send fails in turn.
    v1::WorkerMessage message;
    *message.mutable_failure() = FailureOf(result.status(), status.Heartbeat().step());
    session.Send(std::move(message)).IgnoreError();
  }
  return result;
}

}  // namespace zerofleet::trainer
