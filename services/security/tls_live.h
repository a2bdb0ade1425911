// Certificates that may be exchanged while a process runs: files that have changed are read again, and what begins
// later goes by them. What cannot be used is told once, and what was there before stays in use.
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

// How often files are looked at.
inline constexpr int kTlsReloadSeconds = 1;

class LiveCertificates {
 public:
  using Warn = std::function<void(const std::string& line)>;

  // Errors as of ReadTls. `warn` is called from a thread that looks at the files until this is destroyed.
  static absl::StatusOr<std::shared_ptr<LiveCertificates>> Read(const TlsFiles& files, Warn warn);
  ~LiveCertificates();

  // Whether a client that shows this chain, PEM with its own certificate first, is one of the authority's.
  // PermissionDenied, with the certificate's subject and OpenSSL's reason, if it is not; there must be an authority.
  absl::Status CheckClient(absl::string_view chain) const;

  // Every connection that a server begins with `context` shows the certificate that is in the files then. Where there
  // is an authority, a client is asked for a certificate, and may show one of its own or none. Keeps this alive as long
  // as the context.
  static void UseIn(ssl_ctx_st* context, std::shared_ptr<LiveCertificates> certificates);
  // Whether the client of such a connection, after the handshake, has shown a certificate, or was asked for none.
  static bool MayRead(const ssl_st* connection);
  // Why the certificate that the client of such a connection has shown was not accepted; empty if it was not that.
  static std::string WhyNotAccepted(const ssl_st* connection);

 private:
  struct Impl;
  explicit LiveCertificates(std::unique_ptr<Impl> impl);
  static int OnHandshake(ssl_st* connection, void* certificates);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SECURITY_TLS_LIVE_H_
