// Errors as values: absl::Status, the macros to pass them on, and the exit code each becomes.
//
// What the world can cause (a peer, a file, a configuration, memory) is a Status whose message is one line: what is
// wrong, where (file, key, rank, step), and what would be right. The code says who can fix it, and decides the
// process's exit code:
//
//   InvalidArgument, FailedPrecondition   usage or configuration   exit 2
//   DataLoss, NotFound, ResourceExhausted data or checkpoint       exit 3
//   OutOfRange                            ... whole, but another model's or optimizer's
//   Unavailable, DeadlineExceeded, Aborted the fleet               exit 4
//   Cancelled                             stopped by a signal      exit 130, or 143 (StoppedBySignal)
//   anything else                         an internal error        exit 1
#ifndef ZEROFLEET_BASE_STATUS_H_
#define ZEROFLEET_BASE_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet {

// The exit code of a process that ends with `status` (the table above).
int ExitCode(const absl::Status& status);

// `status` with `context` and ": " before its message, and its payloads; an OK status is returned as it is.
absl::Status Annotate(const absl::Status& status, const std::string& context);

// Cancelled, for a process that `signal` stopped: exit code 130 for SIGINT, else 143.
absl::Status StoppedBySignal(int signal, const std::string& message);

// A status with this code and message, for codes that were sent as integers.
absl::Status MakeStatus(absl::StatusCode code, const std::string& message);

namespace status_internal {
inline absl::Status ToStatus(const absl::Status& status) { return status; }
template <typename T>
absl::Status ToStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}
}  // namespace status_internal
}  // namespace zerofleet

#define ZF_CONCAT_INNER(a, b) a##b
#define ZF_CONCAT(a, b) ZF_CONCAT_INNER(a, b)

// Returns from the enclosing function with the status of `expression` if it is not OK.
#define ZF_RETURN_IF_ERROR(expression)                                           \
  do {                                                                           \
    absl::Status zf_status = ::zerofleet::status_internal::ToStatus(expression); \
    if (!zf_status.ok()) return zf_status;                                       \
  } while (false)

// `declaration = value of expression`; returns its status from the enclosing function if it is not OK.
#define ZF_ASSIGN_OR_RETURN(declaration, expression) \
  ZF_ASSIGN_OR_RETURN_INNER(ZF_CONCAT(zf_status_or_, __LINE__), declaration, expression)
#define ZF_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                      \
  if (!temporary.ok()) return temporary.status();                     \
  declaration = std::move(temporary).value()

#endif  // ZEROFLEET_BASE_STATUS_H_
