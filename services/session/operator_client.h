// An operator's calls to a coordinator: status, the run's events, a stop. `zerofleet status` and the local launcher use
// it.
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
  // InvalidArgument for a malformed address or a TLS file. Nothing is sent yet: the calls report an unreachable
  // coordinator. `token`, unless empty, goes with every call.
  static absl::StatusOr<std::unique_ptr<OperatorClient>> Create(const std::string& coordinator,
                                                                const TlsFiles& tls = {},
                                                                const std::string& token = "");
  ~OperatorClient();

  // GetStatus and Stop wait for the coordinator to be reachable, up to their timeout; after that, Unavailable, naming
  // the address.
  absl::StatusOr<v1::GetStatusResponse> GetStatus(double timeout_seconds, const v1::GetStatusRequest& request = {});
  absl::Status Stop(const std::string& reason, double timeout_seconds);

  // Whether a coordinator can be reached within `seconds`; tries to connect, also right after one was lost.
  bool WaitForCoordinator(double seconds);

  // Calls `on_event` for each of the run's events, from the oldest that the coordinator keeps, until the run has ended
  // (OK), the coordinator is lost or its connection breaks (Unavailable), or CancelWatch is called (Cancelled). The
  // coordinator keeps what this watch has not read yet. One watch at a time; the next watch of the same coordinator
  // continues where this one ended.
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
