// gRPC's credentials from PEM files; see tls.h.
#include "services/security/tls.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_certificate_verifier.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "services/security/access.h"
#include "services/security/tls_live.h"

namespace zerofleet::services {
namespace {

// Verifies clients itself, so that a refusal can be reported with its reason: gRPC says only that a handshake failed.
// It also keeps the watch on a server's files alive, whether or not clients must have certificates.
class ClientVerifier : public grpc::experimental::ExternalCertificateVerifier {
 public:
  ClientVerifier(std::shared_ptr<LiveCertificates> certificates, bool required, TlsObserver observer)
      : certificates_(std::move(certificates)), required_(required), observer_(std::move(observer)) {}

  // Returns true, which means that `status` has the answer already.
  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    if (!required_) return true;
    // OpenSSL leaves a client's own certificate out of its chain.
    const grpc::string_ref own = request->peer_cert(), others = request->peer_cert_full_chain();
    const absl::Status checked = certificates_->CheckClient(
        absl::StrCat(absl::string_view(own.data(), own.size()), absl::string_view(others.data(), others.size())));
    if (checked.ok()) return true;
    if (observer_.refused) observer_.refused(std::string(checked.message()));
    *status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(checked.message()));
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<LiveCertificates> certificates_;
  const bool required_;
  const TlsObserver observer_;
};

// gRPC's own watch on files that have been checked.
std::shared_ptr<grpc::experimental::CertificateProviderInterface> Watch(const TlsFiles& files, const std::string& ca) {
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(files.key, files.certificate, ca,
                                                                              kTlsReloadSeconds);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFrom(const TlsFiles& files,
                                                                               const TlsObserver& observer) {
  if (!files.any()) return grpc::InsecureServerCredentials();
  ZF_ASSIGN_OR_RETURN(std::shared_ptr<LiveCertificates> certificates, LiveCertificates::Read(files, observer.warn));
  if (files.certificate.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(kCaFlag, ": ", files.ca, " needs ", kCertificateFlag, " and ",
                                                   kKeyFlag, " as well: a TLS server has a certificate"));
  }
  grpc::experimental::TlsServerCredentialsOptions options(Watch(files, ""));
  options.watch_identity_key_cert_pairs();
  // gRPC requests a certificate, and ClientVerifier refuses clients that have none or a wrong one.
  const bool required = !files.ca.empty();
  options.set_cert_request_type(required ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY
                                         : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.set_certificate_verifier(grpc::experimental::ExternalCertificateVerifier::Create<ClientVerifier>(
      std::move(certificates), required, observer));
  return grpc::experimental::TlsServerCredentials(options);
}

absl::StatusOr<TlsFiles> PeerTls(const TlsFiles& files) {
  if (!files.any()) return files;
  if (files.certificate.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("workers exchange snapshots under TLS only, where ", kCaFlag,
                                                      " is given: give ", kCertificateFlag, " and ", kKeyFlag,
                                                      " as well"));
  }
  TlsFiles peers = files;
  peers.server_name = AccessOptions().worker_name;
  return peers;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFrom(const TlsFiles& files) {
  if (!files.any()) return grpc::InsecureChannelCredentials();
  ZF_RETURN_IF_ERROR(ReadTls(files).status());
  if (files.ca.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kCertificateFlag, ": ", files.certificate, " needs ", kCaFlag,
                     " as well: the authority that has signed the coordinator's certificate"));
  }
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(Watch(files, files.ca));
  options.watch_root_certs();
  if (!files.certificate.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace zerofleet::services
