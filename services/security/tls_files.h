// The PEM files that TLS flags name: reading them, and what may be wrong with them.
#ifndef ZEROFLEET_SERVICES_SECURITY_TLS_FILES_H_
#define ZEROFLEET_SERVICES_SECURITY_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::services {

inline constexpr char kCaFlag[] = "--tls-ca", kCertificateFlag[] = "--tls-cert", kKeyFlag[] = "--tls-key";

// Paths of PEM files, as --tls-ca, --tls-cert and --tls-key give them; empty: not given.
struct TlsFiles {
  std::string ca, certificate, key;
  // A client's --tls-server-name: the name that the server's certificate must hold, instead of the address's host.
  std::string server_name = "";

  bool any() const { return !ca.empty() || !certificate.empty() || !key.empty(); }
};

// What the files hold, PEM; empty for those that are not given.
struct TlsTexts {
  std::string ca, certificate, key;
};

// InvalidArgument, naming the flag and the file, for one that is missing, cannot be read or is not what it should be,
// for a key that does not belong to the certificate, and for a combination that says nothing.
absl::StatusOr<TlsTexts> ReadTls(const TlsFiles& files);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SECURITY_TLS_FILES_H_
