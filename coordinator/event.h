// What the coordinator is told: messages of sessions, the passing of time, operators, and results of its own outputs.
//
// A new thing the outside can tell the coordinator is one more struct here and one more handler in coordinator.cc.
#ifndef ZEROFLEET_COORDINATOR_EVENT_H_
#define ZEROFLEET_COORDINATOR_EVENT_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::coordinator {

// One session of one worker process; chosen by the caller, never used twice.
using MemberId = uint64_t;

struct MessageReceived {
  MemberId member;
  v1::WorkerMessage message;
};

// The session's stream ended, in whatever way; this member sends nothing more.
struct SessionClosed {
  MemberId member;
  std::string cause;
};

// Time has passed; every wait is judged at this event, so it should be frequent (about every 100 ms).
struct Tick {};

// An operator, or the process's own signal, asks for an orderly end.
struct StopAsked {
  std::string reason;
};

// What carrying out a WriteManifest came to.
struct CommittedStep {
  std::string path;                   // of the committed step directory
  std::vector<std::string> warnings;  // one line each; the commit stands all the same
  std::string digest = {};            // of the manifest
};

// The WriteManifest output for `step` was carried out. The answers come in the order of the outputs.
struct ManifestWritten {
  int64_t step;
  absl::Status status;
  CommittedStep committed;
  uint64_t generation;  // of the manifest
};

// The DiscardSave output was carried out.
struct SaveDiscarded {
  int64_t step;
  uint64_t generation;
};

// The VerifyCheckpoint output was carried out: whether the checkpoint is whole, and the one that was committed.
struct CheckpointVerified {
  std::string path;
  absl::Status status;
};

// What carries out a WriteManifest, DiscardSave or VerifyCheckpoint has got on with it.
struct StorageProgress {};

// A person should know this of the run's storage.
struct StorageNotice {
  std::string message;
  bool emptied = false;  // the checkpoint directory was removed and made anew: what was committed is gone
};

// The run can no longer store anything: its directory is another's.
struct StorageLost {
  absl::Status status;
};

// A PersistState or SetAside output could not be carried out; the outputs after it were dropped.
struct PersistFailed {
  absl::Status status;
};

using CoordinatorEvent = std::variant<MessageReceived, SessionClosed, Tick, StopAsked, ManifestWritten, SaveDiscarded,
                                      StorageProgress, CheckpointVerified, PersistFailed, StorageNotice, StorageLost>;

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_EVENT_H_
