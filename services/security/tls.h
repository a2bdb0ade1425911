// TLS from PEM files: this process's identity, and whom it trusts.
//
// A server with a certificate and its key serves TLS; with an authority too, it requires a certificate signed by it
// from every client (mutual TLS). A client with an authority verifies the server; with a certificate and its key too,
// it presents them. No file at all is plaintext. Errors in files are found before anything is served or sent.
//
// Files may be replaced while the process runs: later connections use the new ones (tls_live.h).
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

// What a server reports. Both may be called from any thread, also after the server's end, and must be quick.
struct TlsObserver {
  std::function<void(const std::string& reason)> refused = nullptr;  // a client whose certificate is not accepted
  std::function<void(const std::string& line)> warn = nullptr;       // changed files that cannot be used
};

// Errors as of ReadTls; also InvalidArgument for a side that lacks what it needs.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFrom(const TlsFiles& files,
                                                                               const TlsObserver& observer = {});
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFrom(const TlsFiles& files);

// The files for connections between workers, from those that a worker has as the coordinator's client: TLS on both
// sides, with certificates that have the workers' name. FailedPrecondition for a worker without a certificate, which
// could only verify others: plaintext would reveal its token.
absl::StatusOr<TlsFiles> PeerTls(const TlsFiles& files);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SECURITY_TLS_H_
