#include "services/metrics_exporter.h"

#include <CivetServer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/address.h"
#include "services/build_info.h"

namespace zerofleet {
namespace {

struct Page {
  const char* status;
  const char* content_type;
  std::string body;
};

constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";

// Answers GET with a page made for each request.
class PageHandler : public CivetHandler {
 public:
  explicit PageHandler(std::function<Page()> make) : make_(std::move(make)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    const Page page = make_();
    const std::string head = absl::StrCat("HTTP/1.1 ", page.status, "\r\nContent-Type: ", page.content_type,
                                          "\r\nContent-Length: ", page.body.size(), "\r\nConnection: close\r\n\r\n");
    mg_write(connection, head.data(), head.size());
    mg_write(connection, page.body.data(), page.body.size());
    return true;
  }

 private:
  const std::function<Page()> make_;
};

Page Ready(const std::function<absl::Status()>& ready) {
  const absl::Status status = ready ? ready() : absl::OkStatus();
  if (status.ok()) return {"200 OK", kPlainText, "ready\n"};
  return {"503 Service Unavailable", kPlainText, absl::StrCat("not ready: ", std::string(status.message()), "\n")};
}

void ExportBuildInfo(prometheus::Registry& registry) {
  const BuildInfo& info = GetBuildInfo();
  prometheus::BuildGauge()
      .Name("zerofleet_build_info")
      .Help("The running executable; always 1.")
      .Register(registry)
      .Add({{"version", info.version}, {"revision", info.revision}, {"cuda", info.cuda ? "true" : "false"}})
      .Set(1);
}

}  // namespace

struct MetricsExporter::Impl {
  explicit Impl(std::function<absl::Status()> ready)
      : metrics([this] {
          return Page{"200 OK", kPrometheusText, prometheus::TextSerializer().Serialize(registry.Collect())};
        }),
        health([] { return Page{"200 OK", kPlainText, "alive\n"}; }),
        readiness([ready = std::move(ready)] { return Ready(ready); }) {}

  prometheus::Registry registry;
  PageHandler metrics, health, readiness;
  std::unique_ptr<CivetServer> server;  // goes first: its threads use the rest
};

MetricsExporter::MetricsExporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsExporter::~MetricsExporter() = default;

absl::StatusOr<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(const MetricsExporterOptions& options) {
  const Address address = {options.host, options.port};
  // Two threads, so that a probe is answered while a scrape is slow; a connection that says nothing is dropped soon.
  const std::vector<std::string> settings = {"listening_ports", address.ToString(), "num_threads", "2",
                                             "request_timeout_ms", "5000"};
  CivetCallbacks callbacks;
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };  // its errors become our statuses
  auto impl = std::make_unique<Impl>(options.ready);
  try {
    impl->server = std::make_unique<CivetServer>(settings, &callbacks);
  } catch (const CivetException&) {
    return CannotListen(address);
  }
  ExportBuildInfo(impl->registry);
  impl->server->addHandler("/metrics$", impl->metrics);
  impl->server->addHandler("/healthz$", impl->health);
  impl->server->addHandler("/readyz$", impl->readiness);
  return std::unique_ptr<MetricsExporter>(new MetricsExporter(std::move(impl)));
}

int MetricsExporter::port() const { return impl_->server->getListeningPorts().front(); }
prometheus::Registry& MetricsExporter::registry() { return impl_->registry; }

}  // namespace zerofleet
