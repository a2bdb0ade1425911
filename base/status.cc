// Exit codes and annotation of statuses; see status.h.
#include "base/status.h"

#include "absl/strings/str_cat.h"

namespace zerofleet {

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
    case absl::StatusCode::kCancelled: return 130;
    default: return 1;
  }
}

absl::Status Annotate(const absl::Status& status, const std::string& context) {
  if (status.ok()) return status;
  return MakeStatus(status.code(), absl::StrCat(context, ": ", status.message()));
}

absl::Status MakeStatus(absl::StatusCode code, const std::string& message) { return absl::Status(code, message); }

}  // namespace zerofleet
