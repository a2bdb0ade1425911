// The HTTP endpoint on Boost.Beast; see metrics_exporter.h.
#include "services/metrics/metrics_exporter.h"

#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <list>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "services/common/address.h"
#include "services/common/build_info.h"
#include "services/common/refusals.h"
#include "services/security/tls_live.h"

namespace zerofleet::services {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;

struct Page {
  http::status status;
  std::string content_type;
  std::string body;
};

// Connections wait without a thread; this many threads make pages.
constexpr int kThreads = 2;
// More than anybody needs, since each lasts a few seconds at most. Beyond these, the oldest connection is closed: a
// real client has long sent its request by then, and the newest, perhaps a probe, is answered.
constexpr size_t kMostConnections = 256, kMostPerAddress = 64;
constexpr std::chrono::milliseconds kPauseAfterError{100};  // for example if no file descriptor is left
constexpr size_t kMostHeaderBytes = 8 << 10;
constexpr size_t kMostBodyBytes = 1 << 10;  // requests should have no body

constexpr char kHealthPath[] = "/healthz", kAlive[] = "alive";
constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";

// Reports refused clients, once there is somewhere to report them. From any thread.
class Doorkeeper {
 public:
  void TellTo(std::shared_ptr<Refusals> refusals) {
    absl::MutexLock lock(&mutex_);
    refusals_ = std::move(refusals);
  }
  void Tell(const std::function<void(Refusals&)>& tell) {
    absl::MutexLock lock(&mutex_);
    if (refusals_ != nullptr) tell(*refusals_);
  }

 private:
  absl::Mutex mutex_;
  std::shared_ptr<Refusals> refusals_ ABSL_GUARDED_BY(mutex_);
};

// A connection that may have to make way.
class Guest {
 public:
  virtual ~Guest() = default;
  virtual void Leave() = 0;  // closes it soon; from any thread
};

// The connections that are open, oldest first. From any thread.
class Room {
 public:
  // Lets `guest` in. If there are too many, the oldest of its address, or of all, has to leave.
  void Enter(std::weak_ptr<Guest> guest, const std::string& address) {
    absl::MutexLock lock(&mutex_);
    guests_.remove_if([](const Entry& each) { return each.guest.expired(); });
    const auto of_this_address = [&](const Entry& each) { return each.address == address; };
    if (static_cast<size_t>(std::count_if(guests_.begin(), guests_.end(), of_this_address)) >= kMostPerAddress) {
      Leave(std::find_if(guests_.begin(), guests_.end(), of_this_address));
    } else if (guests_.size() >= kMostConnections) {
      Leave(guests_.begin());
    }
    guests_.push_back({std::move(guest), address});
  }

 private:
  struct Entry {
    std::weak_ptr<Guest> guest;
    std::string address;
  };
  void Leave(std::list<Entry>::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (const std::shared_ptr<Guest> guest = entry->guest.lock()) guest->Leave();
    guests_.erase(entry);
  }

  absl::Mutex mutex_;
  std::list<Entry> guests_ ABSL_GUARDED_BY(mutex_);
};

// The pages, by path. From any thread.
class Pages {
 public:
  using Make = std::function<Page()>;

  void Add(const std::string& path, bool is_probe, Make make) {
    absl::MutexLock lock(&mutex_);
    pages_[path] = {is_probe, std::move(make)};
  }
  // Waits for answers that are being made.
  void Remove(const std::string& path) {
    absl::MutexLock lock(&mutex_);
    pages_.erase(path);
  }
  Page Answer(const http::request<http::string_body>& request, bool is_known) {
    if (request.method() != http::verb::get && request.method() != http::verb::head) {
      return {http::status::method_not_allowed, kPlainText, "only GET\n"};
    }
    const std::string target(request.target());
    const absl::ReaderMutexLock lock(&mutex_);
    const auto found = pages_.find(target.substr(0, target.find('?')));
    if (found == pages_.end()) return {http::status::not_found, kPlainText, "nothing is here\n"};
    if (!is_known && !found->second.is_probe) {
      return {http::status::forbidden, kPlainText, "this needs a certificate of the authority in --tls-ca\n"};
    }
    return found->second.make();
  }

 private:
  struct Entry {
    bool is_probe = false;  // answered without a certificate, also under mutual TLS
    Make make;
  };
  absl::Mutex mutex_;
  std::map<std::string, Entry> pages_ ABSL_GUARDED_BY(mutex_);
};

// One request and its answer. Lives as long as one of its operations is under way.
template <typename Stream>
class Connection : public Guest, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  Connection(Stream stream, Pages& pages, Doorkeeper& doorkeeper, std::chrono::milliseconds patience)
      : stream_(std::move(stream)), pages_(pages), doorkeeper_(doorkeeper), patience_(patience) {
    parser_.header_limit(kMostHeaderBytes);
    parser_.body_limit(kMostBodyBytes);
    parser_.eager(true);
  }
  Connection(const Connection&) = delete;

  void Leave() override {
    asio::post(stream_.get_executor(),
               [self = this->shared_from_this()] { beast::get_lowest_layer(self->stream_).close(); });
  }

  // The time for the whole request begins here.
  void Run() {
    beast::get_lowest_layer(stream_).expires_after(patience_);
    if constexpr (kIsTls) {
      stream_.async_handshake(asio::ssl::stream_base::server, [self = this->shared_from_this()](error_code error) {
        if (!error) return self->Read();
        self->TellOfHandshake(error);
      });
    } else {
      Read();
    }
  }

 private:
  static constexpr bool kIsTls = std::is_same_v<Stream, TlsStream>;

  // A client that says nothing, or leaves, does not count as refused: it may be a load balancer that checks whether the
  // port is open.
  void TellOfHandshake(const error_code& error) {
    if (error.category() != asio::error::get_ssl_category()) return;
    const std::string why = LiveCertificates::WhyNotAccepted(stream_.native_handle());
    doorkeeper_.Tell([&](Refusals& refusals) {
      if (why.empty()) return refusals.AddFailedHandshake(Peer(), error.message());
      refusals.AddReader(Peer(), absl::StrCat("its certificate is not accepted: ", why));
    });
  }

  std::string Peer() {
    error_code error;
    const Tcp::endpoint peer = beast::get_lowest_layer(stream_).socket().remote_endpoint(error);
    return error ? "an address that is gone" : peer.address().to_string();
  }

  // The parser takes what arrives until the request is whole. Beast's own async_read, and async_write for the answer,
  // do the same for any message, and take longer to compile than all else here.
  void Read() {
    stream_.async_read_some(buffer_.prepare(kMostHeaderBytes),
                            [self = this->shared_from_this()](error_code error, size_t bytes) {
                              if (!error) self->Take(bytes);
                            });
  }

  void Take(size_t bytes) {
    buffer_.commit(bytes);
    error_code error;
    buffer_.consume(parser_.put(buffer_.data(), error));
    if (parser_.is_done()) return Answer();
    if (!error || error == http::error::need_more) Read();
  }

  void Answer() {
    bool is_known = true;
    if constexpr (kIsTls) is_known = LiveCertificates::MayRead(stream_.native_handle());
    const http::request<http::string_body>& request = parser_.get();
    Page page = pages_.Answer(request, is_known);
    if (page.status == http::status::forbidden) {
      doorkeeper_.Tell([&](Refusals& refusals) { refusals.AddReader(Peer(), "it has shown no certificate"); });
    }
    answer_.version(11);
    answer_.result(page.status);
    answer_.set(http::field::content_type, page.content_type);
    // A browser may load the endpoint's own styles and scripts, and must not keep anything.
    answer_.set(http::field::cache_control, "no-store");
    answer_.set("X-Content-Type-Options", "nosniff");
    answer_.set("Referrer-Policy", "no-referrer");
    answer_.set("Content-Security-Policy",
                "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; "
                "form-action 'none'; frame-ancestors 'none'");
    answer_.keep_alive(false);
    answer_.content_length(page.body.size());
    if (request.method() != http::verb::head) answer_.body() = std::move(page.body);
    beast::get_lowest_layer(stream_).expires_after(patience_);
    std::ostringstream text;
    text << answer_;
    text_ = std::move(text).str();
    asio::async_write(stream_, asio::buffer(text_), [self = this->shared_from_this()](error_code error, size_t) {
      if (!error) self->Close();
    });
  }

  void Close() {
    if constexpr (kIsTls) {
      stream_.async_shutdown([self = this->shared_from_this()](error_code) { self->CloseSocket(); });
    } else {
      CloseSocket();
    }
  }
  void CloseSocket() {
    error_code ignored;
    beast::get_lowest_layer(stream_).socket().shutdown(Tcp::socket::shutdown_send, ignored);
  }

  Stream stream_;
  Pages& pages_;
  Doorkeeper& doorkeeper_;
  const std::chrono::milliseconds patience_;
  beast::flat_buffer buffer_;
  http::request_parser<http::string_body> parser_;
  http::response<http::string_body> answer_;
  std::string text_;  // the answer, serialised
};

// A probe's answer: `word`, or "not `word`" and why.
Page Probe(const std::string& word, const std::function<absl::Status()>& ask) {
  const absl::Status status = ask ? ask() : absl::OkStatus();
  if (status.ok()) return {http::status::ok, kPlainText, absl::StrCat(word, "\n")};
  return {http::status::service_unavailable, kPlainText,
          absl::StrCat("not ", word, ": ", std::string(status.message()), "\n")};
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

std::string PathOf(const std::string& name) { return absl::StrCat("/", name); }

}  // namespace

struct MetricsExporter::Impl {
  explicit Impl(int client_timeout_ms) : patience(client_timeout_ms) {}

  const std::chrono::milliseconds patience;
  prometheus::Registry registry;
  Pages pages;
  Doorkeeper doorkeeper;
  Room room;
  std::optional<asio::ssl::context> tls;
  asio::io_context context{kThreads};
  Tcp::acceptor acceptor{context};
  int port = 0;
  std::vector<std::thread> threads;

  // False if the port cannot be had.
  bool Listen(const MetricsExporterOptions& options) {
    error_code error;
    const Tcp::endpoint endpoint(asio::ip::make_address(options.host, error), static_cast<uint16_t>(options.port));
    if (!error) acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(Tcp::acceptor::max_listen_connections, error);
    if (!error) port = acceptor.local_endpoint(error).port();
    return !error;
  }

  void Accept() {
    acceptor.async_accept(asio::make_strand(context), [this](error_code error, Tcp::socket socket) {
      if (error) std::this_thread::sleep_for(kPauseAfterError);
      if (!error) Serve(std::move(socket));
      Accept();
    });
  }

  void Serve(Tcp::socket socket) {
    error_code error;
    const Tcp::endpoint peer = socket.remote_endpoint(error);
    if (error) return;  // the client has left
    const std::string address = peer.address().to_string();
    if (tls) {
      ServeOn(TlsStream(std::move(socket), *tls), address);
    } else {
      ServeOn(PlainStream(std::move(socket)), address);
    }
  }

  template <typename Stream>
  void ServeOn(Stream stream, const std::string& address) {
    const auto connection = std::make_shared<Connection<Stream>>(std::move(stream), pages, doorkeeper, patience);
    room.Enter(connection, address);
    connection->Run();
  }

  void Stop() {
    context.stop();
    for (std::thread& thread : threads) thread.join();
  }
};

MetricsExporter::MetricsExporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsExporter::~MetricsExporter() { impl_->Stop(); }

absl::StatusOr<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(const MetricsExporterOptions& options) {
  if (!IsIpAddress(options.host)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot serve metrics on \"", options.host,
                                                   "\": it must be an IP address of this machine, such as 127.0.0.1, "
                                                   "or 0.0.0.0 for all of them"));
  }
  auto impl = std::make_unique<Impl>(options.client_timeout_ms);
  if (options.tls.any()) {
    ZF_ASSIGN_OR_RETURN(std::shared_ptr<LiveCertificates> certificates,
                        LiveCertificates::Read(options.tls, options.warn));
    impl->tls.emplace(asio::ssl::context::tls_server);
    LiveCertificates::UseIn(impl->tls->native_handle(), std::move(certificates));
  }
  if (!impl->Listen(options)) return CannotListen({options.host, options.port});
  ExportBuildInfo(impl->registry);
  impl->pages.Add("/metrics", /*is_probe=*/false, [impl = impl.get()] {
    return Page{http::status::ok, kPrometheusText, prometheus::TextSerializer().Serialize(impl->registry.Collect())};
  });
  impl->pages.Add(kHealthPath, /*is_probe=*/true, [] { return Probe(kAlive, nullptr); });
  impl->pages.Add("/readyz", /*is_probe=*/true, [ready = options.ready] { return Probe("ready", ready); });
  impl->Accept();
  for (int i = 0; i < kThreads; ++i) {
    impl->threads.emplace_back([impl = impl.get()] { impl->context.run(); });
  }
  return std::unique_ptr<MetricsExporter>(new MetricsExporter(std::move(impl)));
}

void MetricsExporter::SetHealth(std::function<absl::Status()> health) {
  impl_->pages.Add(kHealthPath, /*is_probe=*/true, [health = std::move(health)] { return Probe(kAlive, health); });
}

void MetricsExporter::AddPage(const std::string& name, const char* content_type, std::function<std::string()> make) {
  impl_->pages.Add(PathOf(name), /*is_probe=*/false, [content_type, make = std::move(make)] {
    return Page{http::status::ok, content_type, make()};
  });
}

void MetricsExporter::RemovePage(const std::string& name) { impl_->pages.Remove(PathOf(name)); }

void MetricsExporter::TellOfRefused(std::shared_ptr<Refusals> refusals) {
  impl_->doorkeeper.TellTo(std::move(refusals));
}

int MetricsExporter::port() const { return impl_->port; }
prometheus::Registry& MetricsExporter::registry() { return impl_->registry; }

}  // namespace zerofleet::services
