// What an operator asks of a coordinator: status, the run's events, a stop. `zerofleet status` and the local launcher
// use it.
#ifndef ZEROFLEET_SERVICES_SESSION_OPERATOR_CLIENT_H_
#define ZEROFLEET_SERVICES_SESSION_OPERATOR_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/security/tls.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::services {

class OperatorClient {
 public:
  // InvalidArgument for a malformed address or a TLS file. Nothing is sent yet: an unreachable coordinator shows in
  // the calls. `token` goes with every call, if there is one.
  static absl::StatusOr<std::unique_ptr<OperatorClient>> Create(const std::string& coordinator,
                                                                const TlsFiles& tls = {},
                                                                const std::string& token = "");
  ~OperatorClient();

  // Each call waits for the coordinator to be reachable, up to its timeout; then Unavailable, naming the address.
  // With `partitions`, also who owns and keeps what.
  absl::StatusOr<v1::GetStatusResponse> GetStatus(double timeout_seconds, const v1::GetStatusRequest& request = {});
  absl::Status Stop(const std::string& reason, double timeout_seconds);

  // Whether a coordinator can be reached within `seconds`; tries to, also right after it was lost.
  bool WaitForCoordinator(double seconds);

  // Calls `on_event` for each of the run's events, from its beginning as far as the coordinator keeps it, until the run
  // has ended (OK), the coordinator is lost or its connection breaks (Unavailable), or CancelWatch is called
  // (Cancelled). The coordinator keeps what this watch has not read yet. One watch at a time: of the same coordinator,
  // the next one goes on where this one ended.
  absl::Status Watch(const std::function<void(const v1::Event&)>& on_event);

  // Ends the watch in progress, or the next one at once. Any thread.
  void CancelWatch();

 private:
  struct Impl;
  explicit OperatorClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_OPERATOR_CLIENT_H_
