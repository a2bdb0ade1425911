// Socket options of this process's connections, for tests.
#ifndef ZEROFLEET_SERVICES_RPC_USER_TIMEOUTS_TESTING_H_
#define ZEROFLEET_SERVICES_RPC_USER_TIMEOUTS_TESTING_H_

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <vector>

namespace zerofleet::services {

// TCP_USER_TIMEOUT of every established TCP connection of this process whose local or remote port is `port`.
inline std::vector<unsigned> UserTimeouts(int port) {
  std::vector<unsigned> timeouts;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in local = {}, remote = {};
    socklen_t local_size = sizeof(local), remote_size = sizeof(remote);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) != 0) continue;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &remote_size) != 0) continue;
    if (ntohs(local.sin_port) != port && ntohs(remote.sin_port) != port) continue;
    unsigned timeout = 0;
    socklen_t size = sizeof(timeout);
    if (getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &size) == 0) timeouts.push_back(timeout);
  }
  return timeouts;
}

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_RPC_USER_TIMEOUTS_TESTING_H_
