// HOST:PORT as people write it on the command line, and why a port cannot be listened on.
#ifndef ZEROFLEET_SERVICES_COMMON_ADDRESS_H_
#define ZEROFLEET_SERVICES_COMMON_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet::services {

struct Address {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without its brackets
  int port = 0;

  // "host:port", with brackets around an IPv6 host.
  std::string ToString() const;
};

// Parses "host:1234", "10.0.0.1:1234" or "[::1]:1234". InvalidArgument says what is wrong and what would be right.
absl::StatusOr<Address> ParseAddress(const std::string& text);

// This machine's name, as the operating system reports it.
std::string HostName();

// Whether `text` is an IPv4 or IPv6 address, the latter without brackets.
bool IsIpAddress(const std::string& text);

// The IP address in gRPC's name of a peer ("ipv4:10.0.0.3:4242"); empty for a peer that has none, such as a Unix
// socket's.
std::string AddressOfPeer(const std::string& peer);

// Why this process cannot listen on `address`: tries it, and returns FailedPrecondition with the address and the
// operating system's reason. Call it after a server's own attempt has failed, because libraries do not pass the reason
// on.
absl::Status CannotListen(const Address& address);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COMMON_ADDRESS_H_
