// A worker's life in the fleet: join, agree, load, train, save, finish. One function, driven by the session's messages.
#ifndef ZEROFLEET_WORKER_TRAINER_WORKER_RUN_H_
#define ZEROFLEET_WORKER_TRAINER_WORKER_RUN_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "worker/device/device.h"
#include "worker/trainer/fleet_session.h"
#include "worker/trainer/metrics_sink.h"
#include "worker/trainer/worker_status.h"

namespace zerofleet {

struct WorkerRunOptions {
  v1::Hello hello;  // who this worker is; the device fields are filled in
  DeviceOptions device;  // "auto" gives way to the configuration's device
  // The signal this process has received, 0 if none; asked between steps and while waiting.
  std::function<int()> stop_signal = [] { return 0; };
  // Told this worker's place once it has one, in numbers and as a line for the process's log.
  std::function<void(int rank, uint64_t generation, const std::string& line)> placed = [](int, uint64_t,
                                                                                         const std::string&) {};
  // Told, from any thread and perhaps more than once, that the run is lost: from here on the call is on its way out, which
  // a device that hangs may keep it from.
  std::function<void(const absl::Status&)> lost = [](const absl::Status&) {};
};

struct WorkerRunResult {
  int64_t step = 0;      // steps completed
  bool stopped = false;  // before the last one, with a checkpoint
};

// Takes part in one run from Hello to Complete. An error of this rank is told to the coordinator before it is returned;
// an error of the fleet is returned as the coordinator put it. Everything passed in outlives the call. `session` no
// longer calls into `status` once it is destroyed, which must happen before `status` is.
absl::StatusOr<WorkerRunResult> RunWorker(const WorkerRunOptions& options, FleetSession& session, WorkerStatus& status,
                                          MetricsSink& metrics, const Clock& clock);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_TRAINER_WORKER_RUN_H_
