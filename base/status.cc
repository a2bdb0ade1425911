// Exit codes and annotation of statuses; see status.h.
#include "base/status.h"

#include <signal.h>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace zerofleet {
namespace {

// The payload that marks a status of StoppedBySignal for SIGTERM.
constexpr char kTerminated[] = "zerofleet/terminated";

}  // namespace

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition: return 2;
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kResourceExhausted: return 3;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted: return 4;
    case absl::StatusCode::kCancelled: return 128 + (status.GetPayload(kTerminated) ? SIGTERM : SIGINT);
    default: return 1;
  }
}

absl::Status StoppedBySignal(int signal, const std::string& message) {
  absl::Status status = absl::CancelledError(message);
  if (signal != SIGINT) status.SetPayload(kTerminated, {});
  return status;
}

absl::Status Annotate(const absl::Status& status, const std::string& context) {
  if (status.ok()) return status;
  absl::Status annotated = MakeStatus(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { annotated.SetPayload(type, payload); });
  return annotated;
}

absl::Status MakeStatus(absl::StatusCode code, const std::string& message) { return absl::Status(code, message); }

}  // namespace zerofleet
