// Clients that a server turns away, for the log and for a counter. From any thread.
//
// Each refusal is counted, and each has a line of the log, unless there are too many of them: whoever knocks without
// pause must not fill the log. What has no line of its own is counted in the next one.
#ifndef ZEROFLEET_SERVICES_COMMON_REFUSALS_H_
#define ZEROFLEET_SERVICES_COMMON_REFUSALS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"

namespace zerofleet::services {

class Refusals {
 public:
  // What a client lacked: a certificate that is accepted, the fleet's token, the right to this call, at the metrics
  // port a TLS handshake at all, of a worker's collectives the key of its view, or room: too many connections are open.
  static constexpr char kCertificate[] = "certificate", kToken[] = "token", kRole[] = "role";
  static constexpr char kHandshake[] = "handshake", kKey[] = "key", kRoom[] = "room";
  static constexpr const char* kCauses[] = {kCertificate, kToken, kRole, kHandshake, kRoom};  // of a process's clients

  // Lines at once, and how many a second after that.
  static constexpr double kMostLines = 20, kLinesPerSecond = 1;

  // Both are called with a lock held, one at a time: they must be quick, and must not come back here.
  struct Sinks {
    std::function<void(const char* cause)> count = nullptr;
    std::function<void(const std::string& line)> log = nullptr;  // a warning
  };
  // `clock` is borrowed.
  Refusals(Sinks sinks, const Clock& clock);

  // A client whose TLS handshake was refused for what it has shown.
  void AddHandshake(const std::string& reason);
  // A client of the metrics port: it asked for a page without a certificate, or with another authority's.
  void AddReader(const std::string& peer, const std::string& reason);
  // A client of the metrics port with which no TLS was agreed upon: it speaks plaintext or too old a version, or does
  // not accept this process's certificate.
  void AddFailedHandshake(const std::string& peer, const std::string& reason);
  // A call from `peer` that AccessControl has refused.
  void AddCall(const std::string& peer, const absl::Status& status);
  // A peer that reached the collectives' port without the view's key, as the line says.
  void AddPeer(const std::string& line);
  // A connection from `peer` for which there is no room, as `why` says.
  void AddConnection(const std::string& peer, const std::string& why);
  // Another line for the log, of what a server noticed.
  void Warn(const std::string& line);

  // The sinks are not used again: a connection may outlive the server that took it.
  void Detach();

 private:
  void Add(const char* cause, const std::string& text);

  const Clock& clock_;
  absl::Mutex mutex_;
  Sinks sinks_ ABSL_GUARDED_BY(mutex_);
  double lines_ ABSL_GUARDED_BY(mutex_) = kMostLines;  // that may be written now
  double counted_at_ ABSL_GUARDED_BY(mutex_);          // monotonic seconds: when there were so many
  int64_t untold_ ABSL_GUARDED_BY(mutex_) = 0;         // refusals since the last line
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COMMON_REFUSALS_H_
