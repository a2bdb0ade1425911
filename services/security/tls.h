// TLS from PEM files: who this process is, and whom it believes.
//
// A server with a certificate and its key serves TLS; with an authority too, it requires a certificate signed by it
// from every client (mutual TLS). A client with an authority verifies the server; with a certificate and its key too,
// it presents them. No file at all is plaintext. What is wrong with a file is found before anything is served or sent.
//
// Files may be exchanged while the process runs: connections that begin later use the new ones (tls_live.h).
#ifndef ZEROFLEET_SERVICES_SECURITY_TLS_H_
#define ZEROFLEET_SERVICES_SECURITY_TLS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/security/tls_files.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace zerofleet::services {

// What a server tells of. Both may be called from any thread, also after the server's end, and are to be quick.
struct TlsObserver {
  std::function<void(const std::string& reason)> refused = nullptr;  // a client whose certificate is not accepted
  std::function<void(const std::string& line)> warn = nullptr;       // changed files that cannot be used
};

// Errors as of ReadTls; also InvalidArgument for a side that lacks what it needs.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFrom(const TlsFiles& files,
                                                                               const TlsObserver& observer = {});
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFrom(const TlsFiles& files);

// What workers of a fleet use among each other, of the files that each has as the coordinator's client: TLS on both
// sides, with certificates that hold the workers' name. FailedPrecondition for a worker that could only verify others:
// what it sends in plaintext would show its token.
absl::StatusOr<TlsFiles> PeerTls(const TlsFiles& files);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SECURITY_TLS_H_
