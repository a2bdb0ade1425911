// What the coordinator wants done, each with its reason; the caller carries outputs out in order.
#ifndef ZEROFLEET_COORDINATOR_OUTPUT_H_
#define ZEROFLEET_COORDINATOR_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/event.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::coordinator {

struct SendTo {
  MemberId member;
  std::shared_ptr<const v1::CoordinatorMessage> message;  // shared by all receivers of the same message; never null
};

// Check the shards of this manifest and commit them with it. Answered by ManifestWritten.
struct WriteManifest {
  v1::CheckpointManifest manifest;
};

// Remove what this generation's ranks wrote for a checkpoint of `step` that will not be committed, and what older
// generations left unfinished. What cannot be removed is left to the next DiscardSave. Answered by SaveDiscarded.
struct DiscardSave {
  int64_t step = 0;
  uint64_t generation = 0;
};

// Read the whole checkpoint: a rank could not load it. Answered by CheckpointVerified.
struct VerifyCheckpoint {
  std::string path;
  int64_t step = 0;    // the step of the manifest that was committed there
  std::string digest;  // that manifest's digest; empty: not known
};

struct PublishEvent {
  v1::Event event;
};

// A step that diverged, and the samples that the run leaves out because of it.
struct Rollback {
  int64_t step = 0;           // the step that diverged
  int64_t resumed_step = -1;  // the step that the run went back to; -1: it is about to go back
  // Samples [first_sample, end_sample) in the order of global samples are left out; none before the run has gone back.
  int64_t first_sample = 0;
  int64_t end_sample = 0;
  std::string cause;
  bool operator==(const Rollback&) const = default;
};

// A checkpoint that was committed, and the digest of its manifest.
struct CommittedManifest {
  int64_t step = 0;
  std::string digest;
  bool operator==(const CommittedManifest&) const = default;
};

// What survives the coordinator's own end. Must be durable before the outputs after it are carried out.
struct CoordinatorState {
  uint64_t generation = 0;
  int64_t last_committed_step = -1;               // the newest commit to the run's own directory; -1: none
  std::vector<Rollback> rollbacks;                // the run's, oldest first
  std::vector<CommittedManifest> manifests = {};  // the commits that the run may go back to, newest first
  std::string run_id = {};                        // v1::StartEvent's; empty: none was drawn yet
  bool operator==(const CoordinatorState&) const = default;
};

struct PersistState {
  CoordinatorState state;
};

// Move this step directory out of the way of the run, which will save that step again; nothing is deleted. Must be done
// before the outputs after it are carried out.
struct SetAside {
  std::string path;
};

// Store what the ranks of a lost view were doing, for people to read.
struct KeepFlight {
  v1::Flight flight;
};

// Ends the session once everything that was sent to it has left.
struct CloseSession {
  MemberId member;
};

// Ends the session at once, as a failing network does, so that its worker reconnects.
struct BreakSession {
  MemberId member;
};

// The run is over; no output follows.
struct EndRun {
  absl::Status status;
};

struct Output {
  std::variant<SendTo, WriteManifest, DiscardSave, VerifyCheckpoint, PublishEvent, PersistState, SetAside, KeepFlight,
               CloseSession, BreakSession, EndRun>
      action;
  std::string reason;
};

// One line: "send 2 Assignment{...} (why)". Configurations are left out, since they are the same in all messages of a
// run.
std::string Describe(const Output& output);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_OUTPUT_H_
