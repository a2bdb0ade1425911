// HOST:PORT, taken apart and checked; see address.h.
#include "services/common/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace zerofleet::services {
namespace {

constexpr int kLargestPort = 65535;

// The errno of binding and listening on one resolved address; 0 if that works.
int TryListen(const addrinfo& candidate) {
  const int descriptor = socket(candidate.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return errno;
  const int one = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  int error = 0;
  if (bind(descriptor, candidate.ai_addr, candidate.ai_addrlen) != 0 || listen(descriptor, 1) != 0) error = errno;
  close(descriptor);
  return error;
}

}  // namespace

std::string Address::ToString() const {
  return host.find(':') == std::string::npos ? absl::StrCat(host, ":", port) : absl::StrCat("[", host, "]:", port);
}

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  const auto invalid = [&text](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("address \"", text, "\" ", what, "; it should look like 10.0.0.1:7070 or node-1:7070"));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return invalid("has no port");
  Address address;
  address.host = text.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find_first_of(":[]") != std::string::npos) {
    return invalid("has an IPv6 host without brackets around it");
  }
  if (address.host.empty()) return invalid("has no host");
  if (address.host.find_first_of(" \t\r\n/,") != std::string::npos) return invalid("has a host that is not a name");
  const std::string port = text.substr(colon + 1);
  const bool digits = !port.empty() && port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || !absl::SimpleAtoi(port, &address.port) || address.port > kLargestPort) {
    return invalid("has a port that is not a number from 0 to 65535");
  }
  return address;
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

bool IsIpAddress(const std::string& text) {
  in6_addr parsed;
  return inet_pton(AF_INET, text.c_str(), &parsed) == 1 || inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
}

std::string AddressOfPeer(const std::string& peer) {
  const size_t scheme = peer.find(':'), port = peer.rfind(':');
  if (scheme == std::string::npos || port <= scheme) return "";
  const std::string host =
      absl::StrReplaceAll(peer.substr(scheme + 1, port - scheme - 1), {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
  return IsIpAddress(host) ? host : "";
}

absl::Status CannotListen(const Address& address) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* candidates = nullptr;
  const int resolved = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &candidates);
  if (resolved != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", address.ToString(), ": ", gai_strerror(resolved)));
  }
  int error = 0;
  for (const addrinfo* candidate = candidates; candidate != nullptr && error == 0; candidate = candidate->ai_next) {
    error = TryListen(*candidate);
  }
  freeaddrinfo(candidates);
  const std::string reason = error == 0            ? "the server could not start there"
                             : error == EADDRINUSE ? "the port is in use; choose another, or 0 for any"
                                                   : std::string(std::strerror(error));
  return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", address.ToString(), ": ", reason));
}

}  // namespace zerofleet::services
