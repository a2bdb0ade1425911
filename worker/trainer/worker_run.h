// A worker's life in the fleet: join, then take part in one view after another (agree, load, train, save) until the run
// is finished. One function, driven by the session's messages.
#ifndef ZEROFLEET_WORKER_TRAINER_WORKER_RUN_H_
#define ZEROFLEET_WORKER_TRAINER_WORKER_RUN_H_

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "worker/trainer/fleet_session.h"
#include "worker/trainer/metrics_sink.h"
#include "worker/trainer/worker_run_options.h"
#include "worker/trainer/worker_status.h"

namespace zerofleet::trainer {

// Takes part in one run from Hello to Complete. An error of this rank is reported to the coordinator before it is
// returned; an error of the fleet is returned in the coordinator's words. Cancelled for a worker that has left alone.
// Everything passed in must outlive the call. `session` no longer calls into `status` once it is destroyed, which must
// happen before `status` is.
absl::StatusOr<WorkerRunResult> RunWorker(const WorkerRunOptions& options, FleetSession& session, WorkerStatus& status,
                                          MetricsSink& metrics, const Clock& clock);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_WORKER_RUN_H_
