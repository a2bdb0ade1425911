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
  std::shared_ptr<const v1::CoordinatorMessage> message;  // one for all who are sent the same; never null
};

// Check the shards of this manifest and commit them with it. Answered by ManifestWritten.
struct WriteManifest {
  v1::CheckpointManifest manifest;
};

// Remove what the ranks of this generation wrote for a checkpoint of `step` that is not to be, and what older
// generations left unfinished. What cannot be removed stays for the next time. Answered by SaveDiscarded.
struct DiscardSave {
  int64_t step = 0;
  uint64_t generation = 0;
};

// Read the whole checkpoint: a rank could not load it. Answered by CheckpointVerified.
struct VerifyCheckpoint {
  std::string path;
  int64_t step = 0;    // of the manifest that was committed there
  std::string digest;  // and its digest; empty: not known
};

struct PublishEvent {
  v1::Event event;
};

// A step that diverged, and the samples that the run leaves out because of it.
struct Rollback {
  int64_t step = 0;           // that diverged
  int64_t resumed_step = -1;  // that the run went back to; -1: it is about to
  int64_t first_sample = 0;   // left out: from here to before `end_sample`, in the order of global samples; none until
  int64_t end_sample = 0;     // it has gone back
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
  int64_t last_committed_step = -1;               // to the run's own directory; -1: none
  std::vector<Rollback> rollbacks;                // of the run, oldest first
  std::vector<CommittedManifest> manifests = {};  // that the run may go back to, newest first
  std::string run_id = {};                        // v1::StartEvent's; empty: none was given yet
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

// Keep what the ranks of a lost view were doing, for people.
struct KeepFlight {
  v1::Flight flight;
};

// Ends the session once what was sent to it has left.
struct CloseSession {
  MemberId member;
};

// Ends the session as a network that fails does: at once, and whoever it is connects again.
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

// One line: "send 2 Assignment{...} (why)". Configurations are left out, being the same in every run's every message.
std::string Describe(const Output& output);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_OUTPUT_H_
