// The HTTP endpoint on civetweb; see metrics_exporter.h.
#include "services/metrics_exporter.h"

#include <CivetServer.h>
#include <netdb.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "services/address.h"
#include "services/build_info.h"

namespace zerofleet::services {
namespace {

struct Page {
  const char* status;
  const char* content_type;
  std::string body;
};

// One connection each: as many slow clients leave a thread for a probe. An idle thread costs its stack's first pages.
constexpr int kThreads = 16;

// What a browser may do with a page: load the endpoint's own styles and scripts, and keep nothing.
constexpr char kForBrowsers[] =
    "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer"
    "\r\nContent-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";

// Answers GET with a page made for each request.
class PageHandler : public CivetHandler {
 public:
  explicit PageHandler(std::function<Page()> make) : make_(std::move(make)) {}

  bool handleGet(CivetServer*, mg_connection* connection) override {
    const Page page = make_();
    const std::string head =
        absl::StrCat("HTTP/1.1 ", page.status, "\r\nContent-Type: ", page.content_type,
                     "\r\nContent-Length: ", page.body.size(), kForBrowsers, "\r\nConnection: close\r\n\r\n");
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

// Opens a connection to a numeric address and closes it again.
void Knock(const Address& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) != 0) return;
  const int connection = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connection >= 0) {
    static_cast<void>(connect(connection, found->ai_addr, found->ai_addrlen));
    close(connection);
  }
  freeaddrinfo(found);
}

// The server looks for its stop flag only between connections or every 2 seconds, which would keep every process that
// long at its end: so we knock until it has noticed.
void StopServer(std::unique_ptr<CivetServer> server, const Address& address) {
  absl::Notification stopped;
  std::thread stopping([&] {
    server.reset();
    stopped.Notify();
  });
  do {
    Knock(address);
  } while (!stopped.WaitForNotificationWithTimeout(absl::Milliseconds(5)));
  stopping.join();
}

}  // namespace

struct MetricsExporter::Impl {
  explicit Impl(std::function<absl::Status()> ready)
      : metrics(std::make_unique<PageHandler>([this] {
          return Page{"200 OK", kPrometheusText, prometheus::TextSerializer().Serialize(registry.Collect())};
        })),
        health(std::make_unique<PageHandler>([] {
          return Page{"200 OK", kPlainText, "alive\n"};
        })),
        readiness(std::make_unique<PageHandler>([ready = std::move(ready)] { return Ready(ready); })) {}

  prometheus::Registry registry;
  const std::unique_ptr<CivetHandler> metrics, health, readiness;
  absl::Mutex mutex;
  std::map<std::string, std::unique_ptr<CivetHandler>> pages ABSL_GUARDED_BY(mutex);  // added later, by path
  Address address;                                                                    // listened on
  std::unique_ptr<CivetServer> server;
};

MetricsExporter::MetricsExporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsExporter::~MetricsExporter() { StopServer(std::move(impl_->server), impl_->address); }

absl::StatusOr<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(const MetricsExporterOptions& options) {
  const Address address = {options.host, options.port};
  if (!IsIpAddress(options.host)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot serve metrics on \"", options.host,
                                                   "\": it must be an IP address of this machine, such as 127.0.0.1, "
                                                   "or 0.0.0.0 for all of them"));
  }
  const std::vector<std::string> settings = {"listening_ports",    address.ToString(),
                                             "num_threads",        absl::StrCat(kThreads),
                                             "request_timeout_ms", absl::StrCat(options.client_timeout_ms)};
  CivetCallbacks callbacks;
  callbacks.log_message = [](const mg_connection*, const char*) { return 1; };  // its errors become our statuses
  auto impl = std::make_unique<Impl>(options.ready);
  try {
    impl->server = std::make_unique<CivetServer>(settings, &callbacks);
  } catch (const CivetException&) {
    return CannotListen(address);
  }
  impl->address = {options.host, impl->server->getListeningPorts().front()};
  ExportBuildInfo(impl->registry);
  impl->server->addHandler("/metrics$", impl->metrics.get());
  impl->server->addHandler("/healthz$", impl->health.get());
  impl->server->addHandler("/readyz$", impl->readiness.get());
  return std::unique_ptr<MetricsExporter>(new MetricsExporter(std::move(impl)));
}

void MetricsExporter::AddPage(const std::string& name, const char* content_type, std::function<std::string()> make) {
  auto handler = std::make_unique<PageHandler>([content_type, make = std::move(make)] {
    return Page{"200 OK", content_type, make()};
  });
  const std::string path = absl::StrCat("/", name, "$");
  impl_->server->addHandler(path, handler.get());
  absl::MutexLock lock(&impl_->mutex);
  impl_->pages[path] = std::move(handler);
}

void MetricsExporter::RemovePage(const std::string& name) {
  const std::string path = absl::StrCat("/", name, "$");
  impl_->server->removeHandler(path);  // waits for requests that it is answering
  absl::MutexLock lock(&impl_->mutex);
  impl_->pages.erase(path);
}

int MetricsExporter::port() const { return impl_->address.port; }
prometheus::Registry& MetricsExporter::registry() { return impl_->registry; }

}  // namespace zerofleet::services
