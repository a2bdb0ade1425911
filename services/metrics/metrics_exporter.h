// The one HTTP endpoint of a process: /metrics for Prometheus, /healthz and /readyz for probes, and pages that the
// process adds.
#ifndef ZEROFLEET_SERVICES_METRICS_METRICS_EXPORTER_H_
#define ZEROFLEET_SERVICES_METRICS_METRICS_EXPORTER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/security/tls_files.h"

namespace prometheus {
class Registry;
}

namespace zerofleet::services {

class Refusals;

struct MetricsExporterOptions {
  std::string host = "127.0.0.1";  // an IP address of this machine; 0.0.0.0 or :: for all of them
  int port = 0;                    // 0 = any free one
  // A connection that has not sent its whole request, or has not taken the answer, within this time is closed.
  int client_timeout_ms = 2000;
  // OK when the process does its work; otherwise /readyz answers 503 with the message. Called from the server's threads
  // for each request, so it must be quick, thread-safe, and outlive the exporter. None: always ready.
  std::function<absl::Status()> ready = nullptr;
  // From --tls-cert, --tls-key and --tls-ca; none: plaintext. With an authority, only clients with a certificate of it
  // are answered, except at /healthz and /readyz, whose callers have none.
  TlsFiles tls = {};
  std::function<void(const std::string& line)> warn = nullptr;  // changed files that cannot be used; from any thread
};

class MetricsExporter {
 public:
  // InvalidArgument if the host is not an IP address, or for a TLS file; FailedPrecondition, naming the address, if it
  // cannot be listened on. zerofleet_build_info is exported from the start.
  static absl::StatusOr<std::unique_ptr<MetricsExporter>> Start(const MetricsExporterOptions& options);
  ~MetricsExporter();

  int port() const;

  // From now on /healthz calls `health`, which returns OK while the process can do its work; otherwise /healthz answers
  // 503 with the message. Called in the same way as `ready`, until it is replaced with null, which waits for calls
  // under way.
  void SetHealth(std::function<absl::Status()> health);

  // Also answers GET /NAME with what `make` returns. `make` is called from the server's threads for each request, until
  // RemovePage has returned.
  void AddPage(const std::string& name, const char* content_type, std::function<std::string()> make);
  void RemovePage(const std::string& name);

  // Reports refused clients from now on. Set after Start, since the counters behind `refusals` are in this exporter's
  // registry.
  void TellOfRefused(std::shared_ptr<Refusals> refusals);

  // What /metrics shows; lives as long as the exporter.
  prometheus::Registry& registry();

 private:
  struct Impl;
  explicit MetricsExporter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_METRICS_METRICS_EXPORTER_H_
