// The paths over a real socket, and a port in use.
#include "services/metrics/metrics_exporter.h"

#include <arpa/inet.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Connection {
 public:
  explicit Connection(int port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;

  void Send(const std::string& text) const {
    EXPECT_EQ(send(socket_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  // Sends `byte`; false once the other end has closed the connection.
  bool TrySend(char byte) const { return send(socket_, &byte, 1, MSG_NOSIGNAL) == 1; }
  // Whether neither an answer nor the end has arrived yet.
  bool IsWaiting() const {
    char byte = 0;
    return recv(socket_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
  }
  // All that arrives until the server closes the connection.
  std::string ReadToEnd() const {
    std::string answer;
    char buffer[4096];
    for (ssize_t got = 0; (got = recv(socket_, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, got);
    return answer;
  }

 private:
  const int socket_;
};

// The whole answer to one GET, head and body.
std::string Get(int port, const std::string& path) {
  const Connection connection(port);
  connection.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
  return connection.ReadToEnd();
}

std::unique_ptr<MetricsExporter> Started(std::function<absl::Status()> ready = nullptr) {
  auto exporter = MetricsExporter::Start({.host = "127.0.0.1", .port = 0, .ready = std::move(ready)});
  EXPECT_TRUE(exporter.ok()) << exporter.status();
  return *std::move(exporter);
}

TEST(MetricsExporter, ServesItsRegistryAndTheBuild) {
  const auto exporter = Started();
  prometheus::BuildCounter().Name("apples_total").Help("Apples.").Register(exporter->registry()).Add({}).Increment(3);
  const std::string answer = Get(exporter->port(), "/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("# TYPE apples_total counter\napples_total 3"));
  EXPECT_THAT(answer, HasSubstr("zerofleet_build_info{"));
}

TEST(MetricsExporter, IsAliveWhateverItsReadiness) {
  absl::Status readiness = absl::UnavailableError("waiting for 1 of 2 workers");
  const auto exporter = Started([&] { return readiness; });
  EXPECT_THAT(Get(exporter->port(), "/healthz"), StartsWith("HTTP/1.1 200 OK\r\n"));
  const std::string waiting = Get(exporter->port(), "/readyz");
  EXPECT_THAT(waiting, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(waiting, HasSubstr("not ready: waiting for 1 of 2 workers\n"));
  readiness = absl::OkStatus();
  EXPECT_THAT(Get(exporter->port(), "/readyz"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(MetricsExporter, HasNothingElse) {
  const auto exporter = Started();
  for (const char* path : {"/", "/metrics/more", "/etc/passwd", "/../CMakeLists.txt"}) {
    EXPECT_THAT(Get(exporter->port(), path), StartsWith("HTTP/1.1 4")) << path;
  }
}

TEST(MetricsExporter, ServesPagesUntilTheyAreRemoved) {
  const auto exporter = Started();
  int made = 0;
  exporter->AddPage("status", "text/html; charset=utf-8", [&made] { return absl::StrCat("picture ", ++made); });
  const std::string answer = Get(exporter->port(), "/status");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/html; charset=utf-8\r\n"));
  // Nothing that a worker said about itself may run in a browser.
  EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self';"));
  EXPECT_THAT(answer, HasSubstr("\r\n\r\npicture 1"));
  EXPECT_THAT(Get(exporter->port(), "/status"), HasSubstr("picture 2"));
  exporter->RemovePage("status");
  EXPECT_THAT(Get(exporter->port(), "/status"), StartsWith("HTTP/1.1 4"));
  EXPECT_EQ(made, 2);
}

// Clients that send half a request delay nobody: the probe is answered while all of them still wait.
TEST(MetricsExporter, ProbesAreAnsweredBesideSlowClients) {
  constexpr int kNever = 3'600'000;
  const auto exporter = *MetricsExporter::Start({.client_timeout_ms = kNever});
  std::vector<std::unique_ptr<Connection>> slow;
  for (int i = 0; i < 8; i++) {
    slow.push_back(std::make_unique<Connection>(exporter->port()));
    slow.back()->Send("GET /healthz HT");
  }
  EXPECT_THAT(Get(exporter->port(), "/healthz"), StartsWith("HTTP/1.1 200 OK\r\n"));
  for (const auto& one : slow) EXPECT_TRUE(one->IsWaiting());
}

// Sending one byte now and then does not keep a connection open.
TEST(MetricsExporter, AClientThatDripsIsClosed) {
  const auto exporter = *MetricsExporter::Start({.client_timeout_ms = 200});
  const Connection dripping(exporter->port());
  dripping.Send("GET /healthz HTTP/1.1\r\nX: ");
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (dripping.IsWaiting() && absl::Now() < end) {
    if (!dripping.TrySend('x')) break;
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_LT(absl::Now(), end);
}

TEST(MetricsExporter, SlowClientsAreClosed) {
  const auto exporter = *MetricsExporter::Start({.client_timeout_ms = 50});
  const Connection silent(exporter->port()), half(exporter->port());
  half.Send("GET /healthz HT");
  EXPECT_THAT(silent.ReadToEnd(), Not(HasSubstr("200 OK")));  // returns only because the server closes them
  EXPECT_THAT(half.ReadToEnd(), Not(HasSubstr("200 OK")));
}

TEST(MetricsExporter, ListensOnLoopbackUnlessToldOtherwise) {
  EXPECT_EQ(MetricsExporterOptions().host, "127.0.0.1");
  const auto named = MetricsExporter::Start({.host = "localhost"});
  EXPECT_EQ(named.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(named.status().message()), HasSubstr("\"localhost\": it must be an IP address"));
}

TEST(MetricsExporter, APortInUseIsNamed) {
  const auto first = Started();
  const auto second = MetricsExporter::Start({.host = "127.0.0.1", .port = first->port()});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat("127.0.0.1:", first->port())));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST(MetricsExporter, HealthIsWhatTheProcessSays) {
  const auto exporter = Started();
  EXPECT_THAT(Get(exporter->port(), "/healthz"), HasSubstr("alive\n"));
  exporter->SetHealth([] { return absl::UnavailableError("gRPC port 7070: no call is answered within 1s"); });
  EXPECT_THAT(Get(exporter->port(), "/healthz"), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Get(exporter->port(), "/healthz"), HasSubstr("not alive: gRPC port 7070: no call is answered"));
  exporter->SetHealth(nullptr);
  EXPECT_THAT(Get(exporter->port(), "/healthz"), HasSubstr("alive\n"));
}

TEST(MetricsExporter, TheOldestOfAnAddressMakesWay) {
  const auto exporter = *MetricsExporter::Start({.client_timeout_ms = 600'000});
  std::vector<std::unique_ptr<Connection>> idle;
  for (int i = 0; i < 64; ++i) idle.push_back(std::make_unique<Connection>(exporter->port()));
  EXPECT_THAT(Get(exporter->port(), "/healthz"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(idle.front()->ReadToEnd(), "");  // the oldest was closed
  idle[1]->Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(idle[1]->ReadToEnd(), StartsWith("HTTP/1.1 200 OK\r\n"));  // this one did not have to leave
}

}  // namespace
}  // namespace zerofleet::services
