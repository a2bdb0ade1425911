// poll and accept4 in a thread of their own; see listener.h.
#include "services/rpc/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status.h"

namespace zerofleet::services {
namespace {

constexpr int kBacklog = 4096;     // the kernel takes fewer if net.core.somaxconn is smaller
constexpr int kPauseMs = 50;       // after an error that an immediate retry would meet again
constexpr size_t kLeastRoom = 64;  // at least this many connections, however few files may be open
constexpr char kAccepted = '\n';   // what the listener sends to its own probe

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  bool Peer(int socket) { return getpeername(socket, get(), &size) == 0; }
  bool Local(int socket) { return getsockname(socket, get(), &size) == 0; }
  uint16_t& port() {
    return storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                                         : reinterpret_cast<sockaddr_in*>(&storage)->sin_port;
  }
  // Replaces "all addresses" by one at which this machine reaches the socket.
  void AnyIsLoopback() {
    if (storage.ss_family == AF_INET6) {
      in6_addr& address = reinterpret_cast<sockaddr_in6*>(&storage)->sin6_addr;
      if (!IN6_IS_ADDR_UNSPECIFIED(&address)) return;
      address = in6_addr{};  // 127.0.0.1 mapped to IPv6, since ::1 may be switched off
      address.s6_addr[10] = address.s6_addr[11] = 0xff;
      address.s6_addr[12] = 127;
      address.s6_addr[15] = 1;
      return;
    }
    in_addr& address = reinterpret_cast<sockaddr_in*>(&storage)->sin_addr;
    if (address.s_addr == htonl(INADDR_ANY)) address.s_addr = htonl(INADDR_LOOPBACK);
  }
  std::string Host() {
    char host[NI_MAXHOST] = "";
    getnameinfo(get(), size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
    return std::string(absl::StripPrefix(host, "::ffff:"));  // an IPv4 address at an IPv6 socket
  }
};

void Set(int socket, int level, int option, int value) { setsockopt(socket, level, option, &value, sizeof(value)); }

int OpenReserve() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

void CloseIfOpen(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

// Leaves half of the descriptors for the process's other files.
size_t RoomWithinLimit(size_t most) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return most;
  return std::min<size_t>(most, std::max<size_t>(limit.rlim_cur / 2, kLeastRoom));
}

// A listening socket on one resolved address, or -1 with errno.
int ListenOn(const addrinfo& candidate, int port) {
  const int descriptor = socket(candidate.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return -1;
  SocketAddress address;
  std::copy_n(reinterpret_cast<const char*>(candidate.ai_addr), candidate.ai_addrlen,
              reinterpret_cast<char*>(&address.storage));
  address.port() = htons(static_cast<uint16_t>(port));
  Set(descriptor, SOL_SOCKET, SO_REUSEADDR, 1);
  if (candidate.ai_family == AF_INET6) Set(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, candidate.ai_next != nullptr);
  if (bind(descriptor, address.get(), candidate.ai_addrlen) == 0 && listen(descriptor, kBacklog) == 0) {
    return descriptor;
  }
  const int error = errno;
  close(descriptor);
  errno = error;
  return -1;
}

// Whether `descriptor` becomes ready for `events` before `deadline`.
bool ReadyBefore(int descriptor, short events, absl::Time deadline) {
  pollfd waited = {descriptor, events, 0};
  const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
  return poll(&waited, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) == 1;
}

}  // namespace

void ConnectionRoom::DropClosed(Sockets& sockets) {
  const auto is_closed = [](const std::pair<int, ino_t>& each) {
    struct stat now;
    return fstat(each.first, &now) != 0 || !S_ISSOCK(now.st_mode) || now.st_ino != each.second;
  };
  sockets.erase(std::remove_if(sockets.begin(), sockets.end(), is_closed), sockets.end());
}

size_t ConnectionRoom::Count() const {
  size_t count = 0;
  for (const auto& [address, sockets] : open_) count += sockets.size();
  return count;
}

absl::Status ConnectionRoom::Enter(int socket, const std::string& address) {
  struct stat entry;
  if (fstat(socket, &entry) != 0) return absl::ResourceExhaustedError("its connection is gone");
  if (Count() >= most_) {
    for (auto each = open_.begin(); each != open_.end();) {
      DropClosed(each->second);
      each = each->second.empty() ? open_.erase(each) : std::next(each);
    }
    if (Count() >= most_)
      return absl::ResourceExhaustedError(absl::StrCat("there are ", most_, " connections already"));
  }
  Sockets& sockets = open_[address];
  if (sockets.size() >= most_per_address_) DropClosed(sockets);
  if (sockets.size() >= most_per_address_) {
    return absl::ResourceExhaustedError(absl::StrCat("it has ", most_per_address_, " connections already"));
  }
  sockets.emplace_back(socket, entry.st_ino);
  return absl::OkStatus();
}

Listener::Listener(ListenerOptions options)
    : options_(std::move(options)),
      reserve_(OpenReserve()),
      room_(RoomWithinLimit(options_.most_connections), options_.most_per_address) {}

Listener::~Listener() { Stop(); }

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(ListenerOptions options) {
  std::unique_ptr<Listener> listener(new Listener(std::move(options)));
  ZF_RETURN_IF_ERROR(listener->Bind());
  return listener;
}

absl::Status Listener::Bind() {
  port_ = options_.address.port;
  // "All addresses" includes those of IPv6, if there is IPv6.
  bool bound = options_.address.host == "0.0.0.0" && BindTo("::") && !listening_.empty();
  bound = bound || BindTo(options_.address.host);
  if (!bound || listening_.empty() || pipe2(wake_, O_CLOEXEC) != 0) return CannotListen(options_.address);
  return absl::OkStatus();
}

bool Listener::BindTo(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* candidates = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &candidates) != 0) return false;
  const absl::Cleanup free_candidates = [candidates] { freeaddrinfo(candidates); };
  for (const addrinfo* each = candidates; each != nullptr; each = each->ai_next) {
    const int descriptor = ListenOn(*each, port_);
    // A name may have an address that this machine lacks, such as an IPv6 one; a port in use is an error.
    if (descriptor < 0 && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT)) continue;
    if (descriptor < 0) return false;
    listening_.push_back(descriptor);
    SocketAddress bound;
    if (bound.Local(descriptor)) port_ = ntohs(bound.port());
  }
  return true;
}

void Listener::Start(std::function<void(int socket)> serve) {
  serve_ = std::move(serve);
  thread_ = std::thread([this] { Run(); });
}

void Listener::Stop() {
  CloseIfOpen(wake_[1]);
  if (thread_.joinable()) thread_.join();
  for (int& descriptor : listening_) CloseIfOpen(descriptor);
  CloseIfOpen(wake_[0]);
  CloseIfOpen(reserve_);
}

void Listener::Run() {
  std::vector<pollfd> waited = {{wake_[0], POLLIN, 0}};
  for (const int descriptor : listening_) waited.push_back({descriptor, POLLIN, 0});
  while (true) {
    if (poll(waited.data(), waited.size(), -1) < 0 && errno != EINTR) poll(nullptr, 0, kPauseMs);
    if (waited.front().revents != 0) return;
    for (size_t i = 1; i < waited.size(); ++i) {
      if (waited[i].revents != 0) Accept(waited[i].fd);
    }
  }
}

void Listener::Accept(int listening) {
  const int socket = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket >= 0) return Take(socket);
  switch (errno) {
    case EMFILE:
    case ENFILE: return TurnOneAway(listening);
    case ENOBUFS:
    case ENOMEM: poll(nullptr, 0, kPauseMs); return;
    default: return;  // the client has left
  }
}

void Listener::TurnOneAway(int listening) {
  const bool had_reserve = reserve_ >= 0;
  CloseIfOpen(reserve_);
  const int socket = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket >= 0) {
    SocketAddress peer;
    const std::string address = peer.Peer(socket) ? peer.Host() : "";
    if (options_.turned_away) options_.turned_away(address, "this process may not open another file (ulimit -n)");
    close(socket);
  }
  reserve_ = OpenReserve();
  if (!had_reserve || reserve_ < 0) poll(nullptr, 0, kPauseMs);  // other threads have taken the last one
}

void Listener::Take(int socket) {
  if (IsProbe(socket)) {
    [[maybe_unused]] const ssize_t written = send(socket, &kAccepted, 1, MSG_NOSIGNAL);
    close(socket);
    return;
  }
  SocketAddress peer;
  if (!peer.Peer(socket)) {
    close(socket);
    return;
  }
  const std::string address = peer.Host();
  if (const absl::Status room = room_.Enter(socket, address); !room.ok()) {
    if (options_.turned_away) options_.turned_away(address, std::string(room.message()));
    close(socket);
    return;
  }
  Set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  Set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, options_.answer_timeout_ms);
  serve_(socket);
}

// A probe comes from the address that it connects to, and from a port that ProbeBy has registered.
bool Listener::IsProbe(int socket) {
  SocketAddress peer, local;
  if (!peer.Peer(socket) || !local.Local(socket)) return false;
  {
    absl::MutexLock lock(&mutex_);
    if (!probes_.contains(peer.port())) return false;
  }
  return peer.Host() == local.Host();
}

absl::Status Listener::Probe(absl::Duration limit) {
  SocketAddress target;
  if (listening_.empty() || !target.Local(listening_.front())) return absl::UnavailableError("it is not listened on");
  int descriptor = socket(target.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return absl::UnavailableError(absl::StrCat("cannot open a socket: ", std::strerror(errno)));
  const absl::Cleanup close_it = [&descriptor] { CloseIfOpen(descriptor); };
  if (target.storage.ss_family == AF_INET6) Set(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  return ProbeBy(descriptor, limit);
}

absl::Status Listener::ProbeBy(int socket, absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  SocketAddress target, own;
  target.Local(listening_.front());
  target.AnyIsLoopback();
  own = target;
  own.port() = 0;
  if (bind(socket, own.get(), own.size) != 0 || !own.Local(socket)) {
    return absl::UnavailableError(absl::StrCat("cannot bind a socket: ", std::strerror(errno)));
  }
  const uint16_t port = own.port();
  {
    absl::MutexLock lock(&mutex_);
    probes_.insert(port);
  }
  const absl::Cleanup forget = [this, port] {
    absl::MutexLock lock(&mutex_);
    probes_.erase(port);
  };
  const int connected = connect(socket, target.get(), target.size);
  if (connected != 0 && errno != EINPROGRESS) {
    return absl::UnavailableError(absl::StrCat("cannot be connected to: ", std::strerror(errno)));
  }
  char answer = 0;
  if (!ReadyBefore(socket, POLLIN, deadline)) {
    return absl::UnavailableError(absl::StrCat("does not accept a connection within ", absl::FormatDuration(limit)));
  }
  if (recv(socket, &answer, 1, 0) != 1 || answer != kAccepted) {
    return absl::UnavailableError("does not take the connections that it accepts");
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::services
