// Clients that a server turns away, for the log and for a counter. From any thread.
//
// Each refusal is counted, and each gets a log line, unless there are too many: a client that keeps trying must not
// fill the log. A refusal without a line is counted in the next line.
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
  // What a client lacked: a certificate that is accepted (kCertificate), the fleet's token (kToken), the right to this
  // call (kRole), any TLS handshake at the metrics port (kHandshake), the view's key at a worker's collectives (kKey),
  // or room, because too many connections are open (kRoom).
  static constexpr char kCertificate[] = "certificate", kToken[] = "token", kRole[] = "role";
  static constexpr char kHandshake[] = "handshake", kKey[] = "key", kRoom[] = "room";
  static constexpr const char* kCauses[] = {kCertificate, kToken, kRole, kHandshake, kRoom};  // those of clients

  // The most lines in a burst, and how many lines a second are allowed after that.
  static constexpr double kMostLines = 20, kLinesPerSecond = 1;

  // Both are called with a lock held, one at a time: they must be quick, and must not call back into this object.
  struct Sinks {
    std::function<void(const char* cause)> count = nullptr;
    std::function<void(const std::string& line)> log = nullptr;  // a warning
  };
  // `clock` is borrowed.
  Refusals(Sinks sinks, const Clock& clock);

  // A client whose TLS handshake was refused because of its certificate.
  void AddHandshake(const std::string& reason);
  // A client of the metrics port that requested a page without a certificate, or with another authority's.
  void AddReader(const std::string& peer, const std::string& reason);
  // A client of the metrics port with which no TLS was agreed upon: it speaks plaintext or too old a TLS version, or
  // does not accept this process's certificate.
  void AddFailedHandshake(const std::string& peer, const std::string& reason);
  // A call from `peer` that AccessControl has refused.
  void AddCall(const std::string& peer, const absl::Status& status);
  // A peer that reached the collectives' port without the view's key; `line` describes it.
  void AddPeer(const std::string& line);
  // A connection from `peer` for which there is no room; `why` says which limit.
  void AddConnection(const std::string& peer, const std::string& why);
  // Logs a line about something else that a server noticed.
  void Warn(const std::string& line);

  // Stops using the sinks. Needed because a connection may outlive its server.
  void Detach();

 private:
  void Add(const char* cause, const std::string& text);

  const Clock& clock_;
  absl::Mutex mutex_;
  Sinks sinks_ ABSL_GUARDED_BY(mutex_);
  double lines_ ABSL_GUARDED_BY(mutex_) = kMostLines;  // how many lines may be written now
  double counted_at_ ABSL_GUARDED_BY(mutex_);          // monotonic seconds: when lines_ was last updated
  int64_t untold_ ABSL_GUARDED_BY(mutex_) = 0;         // refusals since the last line
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COMMON_REFUSALS_H_
