// What the coordinator is told: messages of sessions, the passing of time, operators, and results of its own outputs.
//
// A new thing the outside can tell the coordinator is one more struct here and one more handler in coordinator.cc.
#ifndef ZEROFLEET_COORDINATOR_EVENT_H_
#define ZEROFLEET_COORDINATOR_EVENT_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet {

// One session of one worker process; chosen by the caller, never used twice.
using MemberId = uint64_t;

struct MessageReceived {
  MemberId member;
  v1::WorkerMessage message;
};

// The session's stream ended, in whatever way; nothing more comes from this member.
struct SessionClosed {
  MemberId member;
  std::string cause;
};

// Time has passed; every wait is judged when this comes, so it should come often (about every 100 ms).
struct Tick {};

// An operator, or the process's own signal, asks for an orderly end.
struct StopAsked {
  std::string reason;
};

// The WriteManifest output for `step` was carried out.
struct ManifestWritten {
  int64_t step;
  absl::Status status;
  std::string path;  // of the committed step directory
};

// A PersistState or SetAside output could not be carried out; the outputs after it were dropped.
struct PersistFailed {
  absl::Status status;
};

using CoordinatorEvent =
    std::variant<MessageReceived, SessionClosed, Tick, StopAsked, ManifestWritten, PersistFailed>;

}  // namespace zerofleet

#endif  // ZEROFLEET_COORDINATOR_EVENT_H_
