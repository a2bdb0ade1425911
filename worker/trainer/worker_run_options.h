// The options and the result of a worker's life (worker_run.h).
#ifndef ZEROFLEET_WORKER_TRAINER_WORKER_RUN_OPTIONS_H_
#define ZEROFLEET_WORKER_TRAINER_WORKER_RUN_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/model/model.h"
#include "worker/trainer/snapshot_peers.h"
#include "worker/trainer/snapshot_store.h"
#include "worker/trainer/step_trace.h"
#include "zerofleet/v1/coordinator.pb.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::trainer {

struct WorkerRunOptions {
  v1::Hello hello;               // who this worker is; the device fields are filled in
  device::DeviceOptions device;  // "auto" yields to the configuration's device
  std::function<absl::StatusOr<std::unique_ptr<device::Device>>(const device::DeviceOptions&)> create_device =
      device::CreateDevice;
  // Returns the signal that this process has received, 0 if none; called between steps and while waiting.
  std::function<int()> stop_signal = [] { return 0; };
  // If set, a signal does not stop the run: only this worker leaves, once a checkpoint that it requests is settled, and
  // the fleet goes on with whoever takes its place.
  bool leaves_alone = false;
  // The pause before the second try of the run's last save; it doubles with every further try.
  double save_pause_seconds = 1;
  // Called with this worker's place once it has one, as numbers and as a line for the process's log.
  std::function<void(int rank, uint64_t generation, const std::string& line)> placed = [](int, uint64_t,
                                                                                          const std::string&) {};
  // Called, before `placed`, with the trace id of the view.
  std::function<void(const std::string& trace_id)> traced = [](const std::string&) {};
  // Called with a line for the process's log that does not indicate a fault.
  std::function<void(const std::string& line)> note = [](const std::string&) {};
  // Called, from any thread, with a line about a process that connected to this one's collectives but is no rank of its
  // view.
  std::function<void(const std::string& line)> refused_peer = [](const std::string&) {};
  // Called, from RunWorker's thread, with what this rank sees of the run: its start, every step, evaluations.
  std::function<void(const v1::Event&)> event = [](const v1::Event&) {};
  // Where the run keeps its snapshots, which other workers may fetch, and how it reaches theirs. Without peers no
  // snapshot can be sent to another worker, or fetched.
  std::shared_ptr<SnapshotStore> snapshots = std::make_shared<SnapshotStore>();
  SnapshotPeers* peers = nullptr;
  // Computes the passes of a foreign model (worker/model/foreign.h); null where this process has nothing that can.
  model::ForeignPasses* passes = nullptr;
  // Records the steps that it wants (step_trace.h); null: none.
  StepTrace* trace = nullptr;
  // Called, from any thread and perhaps more than once, when the run is lost: RunWorker will then return soon, unless a
  // hanging device prevents it.
  std::function<void(const absl::Status&)> lost = [](const absl::Status&) {};
};

struct WorkerRunResult {
  int64_t step = 0;      // steps completed
  bool stopped = false;  // stopped before the last step, with a checkpoint
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_WORKER_RUN_OPTIONS_H_
