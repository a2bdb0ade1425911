// A server's TCP port: accepts connections, passes each to the server, and never stops accepting.
//
// gRPC's own loop of accept() ends for good at an error such as a lack of file descriptors (CVE-2023-4785), and accepts
// any number of connections. This one has limits, per address and in all, and keeps a descriptor in reserve with which
// to refuse the next client if no other is left.
#ifndef ZEROFLEET_SERVICES_RPC_LISTENER_H_
#define ZEROFLEET_SERVICES_RPC_LISTENER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/common/address.h"

namespace zerofleet::services {

// A peer that vanished without closing its connection is noticed after the sum of these two, if no heartbeat notices it
// before: both ends send HTTP/2 pings, however little else is sent. gRPC also sets the second as the connection's
// TCP_USER_TIMEOUT, so that unacknowledged bytes end it as soon, and not after the kernel's 15 minutes or so. A
// coordinator uses the heartbeat timeout instead of the second if that is longer.
inline constexpr int kKeepaliveTimeMs = 10'000;
inline constexpr int kKeepaliveTimeoutMs = 10'000;

// The open connections, by client address. Their ends are not reported to it; it checks for closed ones when room is
// needed. Not thread-safe.
class ConnectionRoom {
 public:
  ConnectionRoom(size_t most, size_t most_per_address) : most_(most), most_per_address_(most_per_address) {}

  // ResourceExhausted, naming the limit, if there is no room for `socket`; otherwise the socket counts until it is
  // closed.
  absl::Status Enter(int socket, const std::string& address);

 private:
  using Sockets = std::vector<std::pair<int, ino_t>>;  // with inodes, since a descriptor may be another socket's by now
  static void DropClosed(Sockets& sockets);
  size_t Count() const;

  const size_t most_, most_per_address_;
  std::map<std::string, Sockets> open_;
};

struct ListenerOptions {
  Address address;                 // port 0 = any free one; for a name, listens on all its addresses
  size_t most_connections = 4096;  // fewer if the process may not open twice as many files
  size_t most_per_address = 256;
  int answer_timeout_ms = kKeepaliveTimeoutMs;  // TCP_USER_TIMEOUT of the connections
  // Called from the listener's thread for each refused client, so it must be quick and outlive the listener.
  std::function<void(const std::string& address, const std::string& why)> turned_away = nullptr;
};

class Listener {
 public:
  // Binds the port; clients wait until Start. FailedPrecondition, naming the address, if that fails: a port that
  // another process listens on is never shared.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(ListenerOptions options);
  ~Listener();  // as Stop
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }

  // Passes each connection to `serve`, as a non-blocking socket that `serve` owns. Called from the listener's thread.
  void Start(std::function<void(int socket)> serve);
  // Stops accepting and frees the port. Idempotent.
  void Stop();

  // Connects to itself: Unavailable if the connection is not accepted within `limit`. From any thread.
  absl::Status Probe(absl::Duration limit);

 private:
  explicit Listener(ListenerOptions options);
  absl::Status Bind();
  bool BindTo(const std::string& host);
  void Run();
  void Accept(int listening);
  void Take(int socket);
  void TurnOneAway(int listening);
  bool IsProbe(int socket);
  absl::Status ProbeBy(int socket, absl::Duration limit);

  const ListenerOptions options_;
  int port_ = 0;
  std::vector<int> listening_;
  int wake_[2] = {-1, -1};  // a pipe; closing its write end ends the thread
  int reserve_ = -1;        // a descriptor to give up when no other is left
  ConnectionRoom room_;
  std::function<void(int socket)> serve_;
  absl::Mutex mutex_;
  std::set<uint16_t> probes_ ABSL_GUARDED_BY(mutex_);  // local ports of probes under way
  std::thread thread_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_RPC_LISTENER_H_
