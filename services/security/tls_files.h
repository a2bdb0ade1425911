// The PEM files that TLS flags name: reading and checking them.
#ifndef ZEROFLEET_SERVICES_SECURITY_TLS_FILES_H_
#define ZEROFLEET_SERVICES_SECURITY_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::services {

inline constexpr char kCaFlag[] = "--tls-ca", kCertificateFlag[] = "--tls-cert", kKeyFlag[] = "--tls-key";

// Paths of PEM files, as --tls-ca, --tls-cert and --tls-key give them; empty: not given.
struct TlsFiles {
  std::string ca, certificate, key;
  // A client's --tls-server-name: the name that the server's certificate must have, instead of the address's host.
  std::string server_name = "";

  bool any() const { return !ca.empty() || !certificate.empty() || !key.empty(); }
};

// The files' contents, PEM; empty for files that are not given.
struct TlsTexts {
  std::string ca, certificate, key;
};

// InvalidArgument, naming the flag and the file, for a file that is missing, cannot be read or has the wrong contents,
// for a key that does not belong to the certificate, and for a certificate without a key or a key without one.
absl::StatusOr<TlsTexts> ReadTls(const TlsFiles& files);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SECURITY_TLS_FILES_H_
