// TLS from PEM files: who this process is, and whom it believes.
//
// A server with a certificate and its key serves TLS; with an authority too, it requires a certificate signed by it
// from every client (mutual TLS). A client with an authority verifies the server; with a certificate and its key too,
// it presents them. No file at all is plaintext. What is wrong with a file is found before anything is served or sent.
#ifndef ZEROFLEET_SERVICES_TLS_H_
#define ZEROFLEET_SERVICES_TLS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace zerofleet::services {

// Paths of PEM files, as --tls-ca, --tls-cert and --tls-key give them; empty: not given.
struct TlsFiles {
  std::string ca, certificate, key;
  // A client's --tls-server-name: the name that the server's certificate must hold, instead of the address's host.
  std::string server_name = "";

  bool any() const { return !ca.empty() || !certificate.empty() || !key.empty(); }
};

// InvalidArgument, naming the flag and the file, for one that is missing, cannot be read or is not what it should be,
// for a key that does not belong to the certificate, and for a combination that says nothing.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFrom(const TlsFiles& files);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFrom(const TlsFiles& files);

// What workers of a fleet use among each other, of the files that each has as the coordinator's client: TLS on both
// sides, with certificates that hold the workers' name. FailedPrecondition for a worker that could only verify others:
// what it sends in plaintext would show its token.
absl::StatusOr<TlsFiles> PeerTls(const TlsFiles& files);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_TLS_H_
