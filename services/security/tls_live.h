// Certificates that may be replaced while a process runs: changed files are read again, and later connections use them.
// If they cannot be used there is one warning, and the previous ones stay in use.
#ifndef ZEROFLEET_SERVICES_SECURITY_TLS_LIVE_H_
#define ZEROFLEET_SERVICES_SECURITY_TLS_LIVE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/security/tls_files.h"

// OpenSSL's SSL_CTX and SSL.
struct ssl_ctx_st;
struct ssl_st;

namespace zerofleet::services {

// How often files are checked for changes.
inline constexpr int kTlsReloadSeconds = 1;

class LiveCertificates {
 public:
  using Warn = std::function<void(const std::string& line)>;

  // Errors as from ReadTls. `warn` is called from the thread that checks the files, until this object is destroyed.
  static absl::StatusOr<std::shared_ptr<LiveCertificates>> Read(const TlsFiles& files, Warn warn);
  ~LiveCertificates();

  // Checks that the authority has signed a client's chain (PEM, the client's own certificate first). PermissionDenied,
  // with the certificate's subject and OpenSSL's reason, if not. There must be an authority.
  absl::Status CheckClient(absl::string_view chain) const;

  // From now on every connection that a server accepts with `context` shows the certificate that is in the files at
  // that time. With an authority, a client is asked for a certificate; it may show none, but not another authority's.
  // The context keeps `certificates` alive.
  static void UseIn(ssl_ctx_st* context, std::shared_ptr<LiveCertificates> certificates);
  // Whether the client of such a connection has shown a certificate in the handshake, or was not asked for one.
  static bool MayRead(const ssl_st* connection);
  // Why the certificate of such a connection's client was not accepted; empty if that is not why the handshake failed.
  static std::string WhyNotAccepted(const ssl_st* connection);

 private:
  struct Impl;
  explicit LiveCertificates(std::unique_ptr<Impl> impl);
  static int OnHandshake(ssl_st* connection, void* certificates);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SECURITY_TLS_LIVE_H_
