// Counting and logging, within bounds; see refusals.h.
#include "services/common/refusals.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace zerofleet::services {

Refusals::Refusals(Sinks sinks, const Clock& clock)
    : clock_(clock), sinks_(std::move(sinks)), counted_at_(clock.MonotonicSeconds()) {}

void Refusals::AddHandshake(const std::string& reason) {
  Add(kCertificate, absl::StrCat("refused a client's TLS handshake: ", reason));
}

void Refusals::AddReader(const std::string& peer, const std::string& reason) {
  Add(kCertificate, absl::StrCat("refused a reader of metrics at ", peer, ": ", reason));
}

void Refusals::AddFailedHandshake(const std::string& peer, const std::string& reason) {
  Add(kHandshake, absl::StrCat("no TLS with a reader of metrics at ", peer, ": ", reason));
}

void Refusals::AddCall(const std::string& peer, const absl::Status& status) {
  Add(absl::IsUnauthenticated(status) ? kToken : kRole,
      absl::StrCat("refused a call from ", peer, ": ", std::string(status.message())));
}

void Refusals::AddConnection(const std::string& peer, const std::string& why) {
  Add(kRoom, absl::StrCat("turned a connection from ", peer, " away: ", why));
}

void Refusals::AddPeer(const std::string& line) { Add(kKey, line); }

void Refusals::Warn(const std::string& line) {
  absl::MutexLock lock(&mutex_);
  if (sinks_.log) sinks_.log(line);
}

void Refusals::Detach() {
  absl::MutexLock lock(&mutex_);
  sinks_ = {};
}

void Refusals::Add(const char* cause, const std::string& text) {
  absl::MutexLock lock(&mutex_);
  if (sinks_.count) sinks_.count(cause);
  const double now = clock_.MonotonicSeconds();
  lines_ = std::min(kMostLines, lines_ + kLinesPerSecond * (now - std::exchange(counted_at_, now)));
  if (lines_ < 1) {
    ++untold_;
    return;
  }
  lines_ -= 1;
  const int64_t untold = std::exchange(untold_, 0);
  if (!sinks_.log) return;
  sinks_.log(untold == 0 ? text : absl::StrCat(text, "; ", untold, " more were refused since the line before"));
}

}  // namespace zerofleet::services
