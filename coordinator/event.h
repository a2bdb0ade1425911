// The coordinator's inputs: messages of sessions, the passing of time, operators' requests, and results of its own
// outputs.
//
// To add an input, add a struct here and a handler in coordinator.cc.
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

// An operator, or a signal to this process, requests an orderly end.
struct StopAsked {
  std::string reason;
};

// The result of a WriteManifest that succeeded.
struct CommittedStep {
  std::string path;                   // the committed step directory
  std::vector<std::string> warnings;  // one line each; the commit stands despite them
  std::string digest = {};            // the manifest's digest
};

// The WriteManifest output for `step` was carried out. The answers come in the order of the outputs.
struct ManifestWritten {
  int64_t step;
  absl::Status status;
  CommittedStep committed;
  uint64_t generation;  // the manifest's
};

// The DiscardSave output was carried out.
struct SaveDiscarded {
  int64_t step;
  uint64_t generation;
};

// The VerifyCheckpoint output was carried out. `status` says whether the checkpoint is whole and is the one that was
// committed.
struct CheckpointVerified {
  std::string path;
  absl::Status status;
};

// A WriteManifest, DiscardSave or VerifyCheckpoint that is being carried out has made progress.
struct StorageProgress {};

// A person should know this about the run's storage.
struct StorageNotice {
  std::string message;
  bool emptied = false;  // the checkpoint directory was removed and created again: the commits are gone
};

// The run can no longer store anything: its directory belongs to another.
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
