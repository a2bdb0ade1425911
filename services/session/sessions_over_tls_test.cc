// TLS on loopback with certificates that the openssl tool makes for each run of the test.
#include "services/security/tls.h"

#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/common/refusals.h"
#include "services/metrics/metrics_exporter.h"
#include "services/session/operator_client.h"
#include "services/session/session_client.h"
#include "services/session/test_coordinator.h"

namespace zerofleet::services {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using SessionStream = TestCoordinator::SessionStream;

constexpr double kRefusedSeconds = 1;  // how long a client that will be refused tries

bool Shell(const std::string& command) { return std::system(absl::StrCat(command, " >/dev/null 2>&1").c_str()) == 0; }

// Two authorities, "ours" and "theirs"; from each a certificate for 127.0.0.1, <authority>-node, and its key; and one
// that was valid until yesterday, <authority>-expired.
class Tls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!Shell("openssl version")) return;
    std::string pattern = absl::StrCat(::testing::TempDir(), "zerofleet_tls_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = new std::string(pattern);
    for (const std::string authority : {"ours", "theirs"}) MakeAuthority(authority);
    ASSERT_TRUE(WriteFileAtomically(Path("text.pem"), "no certificate\n").ok());
  }
  static void TearDownTestSuite() {
    if (directory_ == nullptr) return;
    EXPECT_TRUE(RemoveTree(*directory_).ok());
    delete directory_;
  }
  void SetUp() override {
    if (directory_ == nullptr) GTEST_SKIP() << "NOT TESTED: TLS, for want of the openssl tool; install openssl";
  }

  static std::string Path(const std::string& name) { return absl::StrCat(*directory_, "/", name); }

  static void MakeAuthority(const std::string& name) {
    const std::string key = " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    const std::string ca = Path(name), node = Path(name + "-node");
    ASSERT_TRUE(
        Shell(absl::StrCat("openssl req -x509", key, " -subj /CN=", name, " -keyout ", ca, ".key -out ", ca, ".crt")));
    ASSERT_TRUE(Shell(absl::StrCat("openssl req", key, " -subj /CN=node -addext subjectAltName=IP:127.0.0.1 -keyout ",
                                   node, ".key -out ", node, ".csr")));
    ASSERT_TRUE(WriteFileAtomically(node + ".ext", "subjectAltName=IP:127.0.0.1\n").ok());
    const auto signed_for = [&](int days, const std::string& out) {
      return Shell(absl::StrCat("openssl x509 -req -days ", days, " -in ", node, ".csr -CA ", ca, ".crt -CAkey ", ca,
                                ".key -CAcreateserial -extfile ", node, ".ext -out ", out));
    };
    ASSERT_TRUE(signed_for(2, node + ".crt"));
    ASSERT_TRUE(signed_for(-1, Path(name + "-expired.crt")));
    ASSERT_TRUE(Shell(absl::StrCat("cp ", node, ".key ", Path(name + "-expired.key"))));
  }

  // Replaces the files of "live" with a node's files and the authority's certificate, one by one, as copying does.
  static void Exchange(const std::string& live, const std::string& authority) {
    for (const std::string kind : {".crt", "-node.crt", "-node.key"}) {
      absl::StatusOr<std::string> text = ReadSmallFile(Path(authority + kind), 1 << 20);
      ASSERT_TRUE(text.ok()) << text.status();
      ASSERT_TRUE(WriteFileAtomically(Path(live + kind), *text).ok());
    }
  }
  // Repeats the call until the answer is `wanted`, or for as long as a test waits.
  static bool EventuallyAnswers(const std::function<bool()>& wanted) {
    for (const absl::Time end = absl::Now() + absl::Seconds(kPatienceSeconds); absl::Now() < end;) {
      if (wanted()) return true;
      absl::SleepFor(absl::Milliseconds(50));
    }
    return false;
  }

  static TlsFiles Files(const std::string& ca, const std::string& node) {
    TlsFiles files;
    if (!ca.empty()) files.ca = Path(ca + ".crt");
    if (!node.empty()) files.certificate = Path(node + ".crt"), files.key = Path(node + ".key");
    return files;
  }

  static absl::Status Ask(OperatorClient& client) { return client.GetStatus(kRefusedSeconds).status(); }
  // The result of a status call over `client`.
  static absl::Status Ask(const TestCoordinator& coordinator, const TlsFiles& client, double seconds) {
    const auto operator_client = OperatorClient::Create(coordinator.address(), client);
    if (!operator_client.ok()) return operator_client.status();
    return (*operator_client)->GetStatus(seconds).status();
  }
  static std::string Refused(const TestCoordinator& coordinator, const TlsFiles& client) {
    const absl::Status status = Ask(coordinator, client, kRefusedSeconds);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(coordinator.address()), HasSubstr("TLS flags")));
    return std::string(status.message());
  }

  static std::string* directory_;
};

std::string* Tls::directory_ = nullptr;

TEST_F(Tls, AClientVerifiesTheServer) {
  const TestCoordinator coordinator(NoSession, Files("", "ours-node"));
  EXPECT_TRUE(Ask(coordinator, Files("ours", ""), kPatienceSeconds).ok());
  EXPECT_THAT(Refused(coordinator, Files("theirs", "")), HasSubstr("certificate verify failed"));
  Refused(coordinator, {});
}

TEST_F(Tls, AServerWithAnAuthorityWantsItsCertificateOfClients) {
  const TestCoordinator coordinator(NoSession, Files("ours", "ours-node"));
  EXPECT_TRUE(Ask(coordinator, Files("ours", "ours-node"), kPatienceSeconds).ok());
  Refused(coordinator, Files("ours", ""));
  Refused(coordinator, Files("ours", "theirs-node"));
  Refused(coordinator, {});
}

TEST_F(Tls, AClientOfTlsRefusesAPlaintextServer) {
  const TestCoordinator coordinator(NoSession);
  Refused(coordinator, Files("ours", ""));
}

TEST_F(Tls, SessionsRunOverIt) {
  TestCoordinator coordinator(
      [](SessionStream& stream) {
        v1::CoordinatorMessage complete;
        complete.mutable_complete();
        stream.Write(complete);
        return grpc::Status::OK;
      },
      Files("ours", "ours-node"));
  const auto session =
      SessionClient::Connect({.coordinator = coordinator.address(), .tls = Files("ours", "ours-node")});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto message = (*session)->Receive(kPatienceSeconds);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_TRUE(message->has_complete());
  const absl::Status refused = SessionClient::Connect({.coordinator = coordinator.address(),
                                                       .connect_timeout_seconds = kRefusedSeconds,
                                                       .tls = Files("theirs", "")})
                                   .status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("certificate verify failed"));
}

// What a server reports about its clients and its files.
class Told {
 public:
  TlsObserver observer() {
    return {.refused = [this](const std::string& reason) { Add(reason); },
            .warn = [this](const std::string& line) { Add("warning: " + line); }};
  }
  std::vector<std::string> lines() {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  void Add(const std::string& line) {
    absl::MutexLock lock(&mutex_);
    lines_.push_back(line);
  }
  absl::Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(Tls, AServerTellsWhomItRefusesAndWhy) {
  Told told;
  const TestCoordinator coordinator(NoSession, Files("ours", "ours-node"), told.observer());
  EXPECT_TRUE(Ask(coordinator, Files("ours", "ours-node"), kPatienceSeconds).ok());
  EXPECT_THAT(told.lines(), IsEmpty());
  const struct {
    std::string node, reason;
  } rows[] = {{"", "it has shown no certificate"},
              {"theirs-node", "its certificate, /CN=node, is not accepted: unable to get local issuer certificate"},
              {"ours-expired", "its certificate, /CN=node, is not accepted: certificate has expired"}};
  for (const auto& row : rows) {
    const size_t before = told.lines().size();
    Refused(coordinator, Files("ours", row.node));
    std::vector<std::string> lines = told.lines();
    lines.erase(lines.begin(), lines.begin() + static_cast<ptrdiff_t>(before));
    EXPECT_THAT(lines, Contains(row.reason)) << row.node;
  }
}

TEST_F(Tls, AServerThatAsksForNoCertificateRefusesNobody) {
  Told told;
  const TestCoordinator coordinator(NoSession, Files("", "ours-node"), told.observer());
  EXPECT_TRUE(Ask(coordinator, Files("ours", ""), kPatienceSeconds).ok());
  EXPECT_TRUE(Ask(coordinator, Files("ours", "theirs-node"), kPatienceSeconds).ok());
  EXPECT_THAT(told.lines(), IsEmpty());
}

TEST_F(Tls, FilesThatAreExchangedAreUsedByBothSides) {
  Exchange("server", "ours");
  Exchange("client", "ours");
  const TestCoordinator coordinator(NoSession, Files("server", "server-node"));
  const auto connected = *OperatorClient::Create(coordinator.address(), Files("ours", "ours-node"));
  ASSERT_TRUE(Ask(*connected).ok());
  const auto not_yet = *OperatorClient::Create(coordinator.address(), Files("client", "client-node"));
  Exchange("server", "theirs");
  EXPECT_TRUE(
      EventuallyAnswers([&] { return Ask(coordinator, Files("theirs", "theirs-node"), kRefusedSeconds).ok(); }));
  EXPECT_FALSE(Ask(coordinator, Files("theirs", "ours-node"), kRefusedSeconds).ok());
  EXPECT_TRUE(Ask(*connected).ok());  // an open connection lasts, whatever is in the files
  EXPECT_FALSE(Ask(*not_yet).ok());
  Exchange("client", "theirs");
  EXPECT_TRUE(EventuallyAnswers([&] { return Ask(*not_yet).ok(); }));
}

TEST_F(Tls, FilesThatCannotBeUsedAreWarnedOfOnceUntilTheyAreRepaired) {
  Exchange("server", "ours");
  Told told;
  const TestCoordinator coordinator(NoSession, Files("server", "server-node"), told.observer());
  ASSERT_TRUE(WriteFileAtomically(Path("server.crt"), "no certificate\n").ok());
  ASSERT_TRUE(EventuallyAnswers([&] { return !told.lines().empty(); }));
  EXPECT_THAT(told.lines(), ElementsAre(AllOf(HasSubstr("warning: --tls-ca: "), HasSubstr("holds no certificate"))));
  EXPECT_TRUE(Ask(coordinator, Files("ours", "ours-node"), kPatienceSeconds).ok());
  Exchange("server", "theirs");
  EXPECT_TRUE(
      EventuallyAnswers([&] { return Ask(coordinator, Files("theirs", "theirs-node"), kRefusedSeconds).ok(); }));
}

// What /metrics and /healthz answer to the openssl tool with these flags.
std::string Https(int port, const std::string& path, const std::string& flags) {
  const std::string out = absl::StrCat(::testing::TempDir(), "zerofleet_https_", getpid());
  Shell(absl::StrCat("(printf 'GET ", path, " HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' | timeout 20 openssl s_client -quiet ",
                     "-connect 127.0.0.1:", port, " ", flags, " >", out, ")"));
  const std::string answer = ReadSmallFile(out, 1 << 20).value();
  EXPECT_EQ(unlink(out.c_str()), 0);
  return answer;
}

TEST_F(Tls, MetricsAreForThoseWithACertificateOfTheAuthorityAndProbesForAll) {
  Exchange("server", "ours");
  const auto exporter = *MetricsExporter::Start({.tls = Files("server", "server-node")});
  const auto flags = [](const std::string& name) {
    return absl::StrCat("-cert ", Path(name + ".crt"), " -key ", Path(name + ".key"));
  };
  const std::string answer = Https(exporter->port(), "/metrics", flags("ours-node") + " -CAfile " + Path("ours.crt"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("zerofleet_build_info{"));
  EXPECT_THAT(Https(exporter->port(), "/metrics", ""),
              AllOf(StartsWith("HTTP/1.1 403 "), Not(HasSubstr("zerofleet_"))));
  EXPECT_EQ(Https(exporter->port(), "/metrics", flags("theirs-node")), "");
  EXPECT_EQ(Https(exporter->port(), "/healthz", flags("ours-expired")), "");
  EXPECT_THAT(Https(exporter->port(), "/healthz", ""), StartsWith("HTTP/1.1 200 OK\r\n"));
  Exchange("server", "theirs");
  EXPECT_TRUE(EventuallyAnswers(
      [&] { return absl::StartsWith(Https(exporter->port(), "/metrics", flags("theirs-node")), "HTTP/1.1 200"); }));
  EXPECT_EQ(Https(exporter->port(), "/metrics", flags("ours-node")), "");
}

// Each refused client is reported once, by what it lacked; a client that only checks whether the port is open, or
// requests a probe, is not.
TEST_F(Tls, WhoeverMayNotReadMetricsIsToldOf) {
  absl::Mutex mutex;
  std::vector<std::string> told;
  const auto refusals = std::make_shared<Refusals>(Refusals::Sinks{.count =
                                                                       [&](const char* cause) {
                                                                         absl::MutexLock lock(&mutex);
                                                                         told.push_back(absl::StrCat(cause, ": "));
                                                                       },
                                                                   .log =
                                                                       [&](const std::string& line) {
                                                                         absl::MutexLock lock(&mutex);
                                                                         told.back() += line;
                                                                       }},
                                                   Clock::Real());
  const auto exporter = *MetricsExporter::Start({.tls = Files("ours", "ours-node")});
  const auto lines = [&](size_t count) {
    EXPECT_TRUE(EventuallyAnswers([&] {
      absl::MutexLock lock(&mutex);
      return told.size() >= count;
    }));
    absl::MutexLock lock(&mutex);
    return std::exchange(told, {});
  };
  const std::string theirs = absl::StrCat("-cert ", Path("theirs-node.crt"), " -key ", Path("theirs-node.key"));
  Https(exporter->port(), "/metrics", "");  // before refusals are reported anywhere
  exporter->TellOfRefused(refusals);
  Https(exporter->port(), "/healthz", "");
  EXPECT_TRUE(Shell(absl::StrCat("timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/", exporter->port(), "'")));
  Https(exporter->port(), "/metrics", "");
  EXPECT_THAT(lines(1),
              ElementsAre("certificate: refused a reader of metrics at 127.0.0.1: it has shown no certificate"));
  Https(exporter->port(), "/metrics", theirs);
  EXPECT_THAT(lines(1), ElementsAre(AllOf(StartsWith("certificate: refused a reader of metrics at 127.0.0.1: its "),
                                          HasSubstr("unable to get local issuer certificate"))));
  Shell(absl::StrCat("timeout 20 bash -c 'exec 3<>/dev/tcp/127.0.0.1/", exporter->port(),
                     "; printf \"GET /metrics HTTP/1.1\\r\\n\\r\\n\" >&3; cat <&3'"));
  EXPECT_THAT(lines(1), ElementsAre(AllOf(StartsWith("handshake: no TLS with a reader of metrics at 127.0.0.1: "),
                                          HasSubstr("http request"))));
  Https(exporter->port(), "/metrics", "-tls1_1 -cipher DEFAULT@SECLEVEL=0");
  EXPECT_THAT(lines(1), ElementsAre(StartsWith("handshake: ")));
  Https(exporter->port(), "/metrics", "-verify_return_error -CAfile " + Path("theirs.crt"));
  EXPECT_THAT(lines(1), ElementsAre(AllOf(StartsWith("handshake: "), HasSubstr("alert unknown ca"))));
}

TEST_F(Tls, MetricsWithoutAnAuthorityAreForAll) {
  const auto exporter = *MetricsExporter::Start({.tls = Files("", "ours-node")});
  EXPECT_THAT(Https(exporter->port(), "/metrics", "-verify_return_error -CAfile " + Path("ours.crt")),
              StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(Https(exporter->port(), "/metrics", "-verify_return_error -CAfile " + Path("theirs.crt")), "");
  EXPECT_EQ(MetricsExporter::Start({.tls = Files("", "none")}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(Tls, WhatIsWrongWithTheFilesNamesFlagAndFile) {
  const std::string ca = Path("ours.crt"), certificate = Path("ours-node.crt"), key = Path("ours-node.key");
  const struct {
    TlsFiles files;
    bool server;
    std::string flag, says;
  } rows[] = {
      {{Path("none.crt"), certificate, key}, true, "--tls-ca: ", Path("none.crt")},
      {{Path("text.pem"), certificate, key}, true, "--tls-ca: ", Path("text.pem") + " holds no certificate"},
      {{"", Path("none.crt"), key}, true, "--tls-cert: ", Path("none.crt")},
      {{"", key, key}, true, "--tls-cert: ", key + " holds no certificate"},
      {{"", certificate, Path("none.key")}, true, "--tls-key: ", Path("none.key")},
      {{"", certificate, certificate}, true, "--tls-key: ", certificate + " holds no private key"},
      {{"", certificate, Path("theirs-node.key")}, true, "--tls-key: ", "is not the key of"},
      {{"", certificate, ""}, true, "--tls-cert: ", "needs --tls-key"},
      {{"", "", key}, true, "--tls-key: ", "needs --tls-cert"},
      {{ca, "", ""}, true, "--tls-ca: ", "needs --tls-cert and --tls-key"},
      {{"", certificate, key}, false, "--tls-cert: ", "needs --tls-ca"},
      {{Path("none.crt"), "", ""}, false, "--tls-ca: ", Path("none.crt")},
      {{ca, certificate, Path("theirs-node.key")}, false, "--tls-key: ", "is not the key of"},
  };
  for (const auto& row : rows) {
    const absl::Status status =
        row.server ? ServerCredentialsFrom(row.files).status() : ChannelCredentialsFrom(row.files).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(row.flag), HasSubstr(row.says)));
  }
}

}  // namespace
}  // namespace zerofleet::services
