// The three paths over a real socket, and a port in use.
#include "services/metrics_exporter.h"

#include <arpa/inet.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The whole answer to one GET, head and body, over a socket.
std::string Get(int port, const std::string& path) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return "no connection";
  const std::string request = absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(send(connection, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = recv(connection, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, got);
  close(connection);
  return answer;
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

TEST(MetricsExporter, APortInUseIsNamed) {
  const auto first = Started();
  const auto second = MetricsExporter::Start({.host = "127.0.0.1", .port = first->port()});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat("127.0.0.1:", first->port())));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

}  // namespace
}  // namespace zerofleet
