// The TCP port of a server: accepts connections, each of which goes to the server, and never stops accepting.
//
// gRPC's own loop of accept() ends for good at an error such as a lack of file descriptors (CVE-2023-4785), and it
// takes any number of connections. Here there are bounds, for an address and for all, and where no descriptor is left a
// reserve is spent on turning the next client away.
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

// A peer that vanished without closing its connection is noticed after these two, where no heartbeat notices it before:
// by HTTP/2 pings, at both ends and however little is said. The second is also what gRPC sets as TCP_USER_TIMEOUT of
// the connection, so that bytes which nobody acknowledges end it as soon, not after the kernel's 15 minutes or so. A
// coordinator waits for the heartbeat timeout instead of the second where that is longer.
inline constexpr int kKeepaliveTimeMs = 10'000;
inline constexpr int kKeepaliveTimeoutMs = 10'000;

// Connections that are open, by their clients' addresses. When one ends is not told: it is looked at when room is
// wanted. Not thread-safe.
class ConnectionRoom {
 public:
  ConnectionRoom(size_t most, size_t most_per_address) : most_(most), most_per_address_(most_per_address) {}

  // ResourceExhausted, saying which bound, if there is no room for `socket`; else it counts until it is closed.
  absl::Status Enter(int socket, const std::string& address);

 private:
  using Sockets = std::vector<std::pair<int, ino_t>>;  // a descriptor may be another socket's by now
  static void DropClosed(Sockets& sockets);
  size_t Count() const;

  const size_t most_, most_per_address_;
  std::map<std::string, Sockets> open_;
};

struct ListenerOptions {
  Address address;                 // port 0 = any free one; a name is listened on at all its addresses
  size_t most_connections = 4096;  // less where the process may not open twice as many files
  size_t most_per_address = 256;
  int answer_timeout_ms = kKeepaliveTimeoutMs;  // TCP_USER_TIMEOUT of the connections
  // A client that was turned away, and why. From the listener's thread: quick, and alive as long as the listener.
  std::function<void(const std::string& address, const std::string& why)> turned_away = nullptr;
};

class Listener {
 public:
  // Takes the port; clients wait until Start. FailedPrecondition naming the address if it cannot be had: one that
  // another process listens on is never shared.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(ListenerOptions options);
  ~Listener();  // as Stop
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int port() const { return port_; }

  // `serve` takes each connection over: a non-blocking socket, which it closes. Called from the listener's thread.
  void Start(std::function<void(int socket)> serve);
  // Accepts nothing more: the port is free. Idempotent.
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
  int wake_[2] = {-1, -1};  // a pipe: closed to end the thread
  int reserve_ = -1;        // a descriptor to give up where none is left
  ConnectionRoom room_;
  std::function<void(int socket)> serve_;
  absl::Mutex mutex_;
  std::set<uint16_t> probes_ ABSL_GUARDED_BY(mutex_);  // local ports of probes under way
  std::thread thread_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_RPC_LISTENER_H_
