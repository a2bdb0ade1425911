// Certificates that may be exchanged while a process runs: files that have changed are read again, and what begins
// later goes by them. What cannot be used is told once, and what was there before stays in use.
#ifndef ZEROFLEET_SERVICES_TLS_LIVE_H_
#define ZEROFLEET_SERVICES_TLS_LIVE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/tls_files.h"

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

 private:
  struct Impl;
  explicit LiveCertificates(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_TLS_LIVE_H_
