// A coordinator on the loopback and callers without access: every call with the right token, none, a wrong one and the
// other role's; certificates with and without a role; messages that are too large.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "services/coordinator/coordinator_server.h"
#include "services/session/operator_client.h"
#include "services/session/session_client.h"
#include "worker/model/model_testing.h"
#include "zerofleet/v1/coordinator.grpc.pb.h"

namespace zerofleet::services {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kPatienceSeconds = 20;
constexpr char kWorkerToken[] = "worker-token-0123456789", kOperatorToken[] = "operator-token-0123456789";

v1::WorkerMessage HelloFrom(const std::string& host) {
  v1::WorkerMessage message;
  message.mutable_hello()->set_host(host);
  return message;
}

class CoordinatorSecurityTest : public testing::Test {
 protected:
  CoordinatorSecurityTest() {
    EXPECT_TRUE(RemoveTree(dir_).ok());
    EXPECT_TRUE(CreateDirectories(dir_).ok());
    options_.listen = "127.0.0.1:0";
    options_.state_dir = JoinPath(dir_, "state");
    options_.config.mutable_parallel()->set_workers(2);
    options_.config.mutable_parallel()->set_tensor(1);
    options_.config.mutable_optimizer()->set_name("adamw");
    *options_.config.mutable_model() = model::TestModelConfig(2, 8, 1, 8, 256);
    options_.config.mutable_checkpoint()->set_dir(JoinPath(dir_, "checkpoints"));
    options_.config.mutable_restart()->set_heartbeat_timeout_seconds(60);
    options_.config.mutable_restart()->set_form_timeout_seconds(60);
    options_.config.mutable_restart()->set_load_timeout_seconds(60);
  }
  ~CoordinatorSecurityTest() override {
    server_.reset();
    EXPECT_TRUE(RemoveTree(dir_).ok());
  }

  void Start() {
    absl::StatusOr<std::unique_ptr<CoordinatorServer>> server = CoordinatorServer::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", server_->port()); }

  std::unique_ptr<OperatorClient> Operator(const std::string& token, const TlsFiles& tls = {}) const {
    return OperatorClient::Create(address(), tls, token).value();
  }
  // The result of a Stop call.
  absl::Status Stop(const std::string& token, const TlsFiles& tls = {}) const {
    return Operator(token, tls)->Stop("test", kPatienceSeconds);
  }
  // OK if a worker is welcomed.
  absl::Status Join(const std::string& token, const TlsFiles& tls = {}) const {
    SessionOptions options;
    options.coordinator = address();
    options.tls = tls;
    options.token = token;
    options.trace_id = [this] { return trace_id_; };
    auto session = SessionClient::Connect(options);
    if (!session.ok()) return session.status();
    absl::Status sent = (*session)->Send(HelloFrom("h"));
    if (!sent.ok()) return sent;
    return (*session)->Receive(kPatienceSeconds).status();
  }
  // How a watch ends: refused, or with the run.
  absl::Status Watch(const std::string& token) const {
    return Operator(token)->Watch([](const v1::Event&) {});
  }

  const std::string dir_ = JoinPath(testing::TempDir(), absl::StrCat("zerofleet_coordinator_security_", getpid()));
  CoordinatorOptions options_;
  std::string trace_id_;
  std::unique_ptr<CoordinatorServer> server_;
};

TEST_F(CoordinatorSecurityTest, TakesTheTraceIdOverThatAWorkersCallCarries) {
  options_.access.worker_token = kWorkerToken;
  std::ostringstream log;
  Logger logger(LogLevel::kError, log, Clock::Real());
  options_.logger = &logger;
  Start();
  trace_id_ = "0af7651916cd43dd8448eb211c80319c";
  EXPECT_FALSE(Join("no-token-of-this-fleet").ok());
  EXPECT_EQ(logger.trace_id(), "") << "who is refused is not believed";
  trace_id_ = "4bf92f3577b34da6a3ce929d0e0e4736";
  EXPECT_TRUE(Join(kWorkerToken).ok());
  EXPECT_EQ(logger.trace_id(), trace_id_);
  const std::string first = std::exchange(trace_id_, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_TRUE(Join(kWorkerToken).ok());
  EXPECT_EQ(logger.trace_id(), first) << "one is enough";
  server_.reset();
}

TEST_F(CoordinatorSecurityTest, TokensKeepStrangersAndTheOtherRoleOut) {
  options_.access.worker_token = kWorkerToken;
  options_.access.operator_token = kOperatorToken;
  prometheus::Registry registry;
  options_.registry = &registry;
  std::ostringstream log;
  Logger logger(LogLevel::kWarning, log, Clock::Real());
  options_.logger = &logger;
  Start();
  for (const char* token : {"", "no-token-of-this-fleet", kOperatorToken}) {
    const absl::Status joined = Join(token);
    EXPECT_EQ(joined.code(), absl::StatusCode::kFailedPrecondition) << token << ": " << joined;
    EXPECT_THAT(std::string(joined.message()), HasSubstr("refused this worker: "));
  }
  for (const char* token : {"", "no-token-of-this-fleet", kWorkerToken}) {
    EXPECT_EQ(Stop(token).code(), absl::StatusCode::kFailedPrecondition) << token;
    EXPECT_EQ(Watch(token).code(), absl::StatusCode::kFailedPrecondition) << token;
  }
  EXPECT_TRUE(Operator("")->GetStatus(kPatienceSeconds).ok());  // open to everybody
  EXPECT_EQ(Operator("")->GetStatus(kPatienceSeconds)->phase(), "forming");
  EXPECT_TRUE(Join(kWorkerToken).ok());
  EXPECT_TRUE(Stop(kOperatorToken).ok());
  EXPECT_EQ(server_->Wait().code(), absl::StatusCode::kCancelled);
  const std::string metrics = prometheus::TextSerializer().Serialize(registry.Collect());
  for (const char* counted : {"{cause=\"token\"} 6\n", "{cause=\"role\"} 3\n", "{cause=\"certificate\"} 0\n"}) {
    EXPECT_THAT(metrics, HasSubstr(absl::StrCat("zerofleet_coordinator_refused_clients_total", counted)));
  }
  server_.reset();  // writes the rest of the log
  const std::string told = log.str();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 9) << told;
  EXPECT_THAT(told, HasSubstr("refused a call from 127.0.0.1: this call needs a worker's token; the one shown is an "
                              "operator's"));
  for (const char* secret : {kWorkerToken, kOperatorToken, "no-token-of-this-fleet"}) {
    EXPECT_THAT(told, Not(HasSubstr(secret)));
  }
}

TEST_F(CoordinatorSecurityTest, ALargeMessageOfAStrangerCostsNothingAndIsNotLogged) {
  std::ostringstream log;
  Logger logger(LogLevel::kDebug, log, Clock::Real());
  options_.logger = &logger;
  Start();
  auto channel = grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
  auto stub = v1::Coordinator::NewStub(channel);
  const auto refused = [&](const v1::WorkerMessage& message) {
    grpc::ClientContext context;
    auto stream = stub->Session(&context);
    stream->Write(message);
    v1::CoordinatorMessage answer;
    while (stream->Read(&answer)) ADD_FAILURE() << answer.ShortDebugString();
    return stream->Finish().error_code();
  };
  EXPECT_EQ(refused(HelloFrom(std::string(8 << 20, 'x'))), grpc::StatusCode::RESOURCE_EXHAUSTED);  // gRPC's own limit
  EXPECT_EQ(refused(HelloFrom(std::string(100 << 10, 'x'))), grpc::StatusCode::INVALID_ARGUMENT);
  v1::WorkerMessage control = HelloFrom("a\nb");
  EXPECT_EQ(refused(control), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Operator("")->GetStatus(kPatienceSeconds)->members_size(), 0);
  grpc::ClientContext context;
  v1::StopRequest request;
  request.set_reason(std::string(10'000, 'r') + "\x1b");
  v1::StopResponse response;
  EXPECT_TRUE(stub->Stop(&context, request, &response).ok());
  EXPECT_EQ(server_->Wait().code(), absl::StatusCode::kCancelled);
  server_.reset();
  EXPECT_LT(log.str().size(), 8000u) << log.str();
}

TEST_F(CoordinatorSecurityTest, WhatAWorkerReportsIsCutBeforeItIsPassedOn) {
  Start();
  SessionOptions options;
  options.coordinator = address();
  auto session = SessionClient::Connect(options).value();
  ASSERT_TRUE(session->Send(HelloFrom("h")).ok());
  ASSERT_TRUE(session->Receive(kPatienceSeconds).ok());
  v1::WorkerMessage failure;
  failure.mutable_failure()->set_code(13);
  failure.mutable_failure()->set_message("\x1b[2J" + std::string(50'000, 'x'));
  ASSERT_TRUE(session->Send(failure).ok());
  const absl::Status end = server_->Wait();
  EXPECT_THAT(std::string(end.message()), HasSubstr("failed: ?[2Jxxx"));
  EXPECT_LT(end.message().size(), 2500u);
}

// One authority, and certificates with names that a test chooses.
class CoordinatorCertificatesTest : public CoordinatorSecurityTest {
 protected:
  static bool Shell(const std::string& command) {
    return std::system(absl::StrCat(command, " >/dev/null 2>&1").c_str()) == 0;
  }
  std::string Path(const std::string& name) const { return JoinPath(dir_, name); }

  void SetUp() override {
    if (!Shell("openssl version")) GTEST_SKIP() << "NOT TESTED: certificates, without the openssl tool";
    ASSERT_TRUE(Shell(absl::StrCat("openssl req -x509 ", kNewKey, " -subj /CN=ca -keyout ", Path("ca.key"), " -out ",
                                   Path("ca.crt"))));
    options_.tls = Certificate("coordinator", "DNS:zerofleet-coordinator");
    options_.access.certificates = true;
  }
  TlsFiles Certificate(const std::string& name, const std::string& alternative_names) const {
    const std::string base = Path(name);
    std::ofstream(base + ".ext") << "subjectAltName=" << alternative_names << "\n";
    EXPECT_TRUE(Shell(
        absl::StrCat("openssl req ", kNewKey, " -subj /CN=", name, " -keyout ", base, ".key -out ", base, ".csr")));
    EXPECT_TRUE(Shell(absl::StrCat("openssl x509 -req -days 2 -in ", base, ".csr -CA ", Path("ca.crt"), " -CAkey ",
                                   Path("ca.key"), " -CAcreateserial -extfile ", base, ".ext -out ", base, ".crt")));
    return {.ca = Path("ca.crt"),
            .certificate = base + ".crt",
            .key = base + ".key",
            .server_name = "zerofleet-coordinator"};
  }
  static constexpr char kNewKey[] = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
};

TEST_F(CoordinatorCertificatesTest, RolesAreNamesInCertificates) {
  Start();
  const TlsFiles worker = Certificate("worker", "DNS:node-1,DNS:zerofleet-worker");
  const TlsFiles boss = Certificate("operator", "DNS:zerofleet-operator");
  const TlsFiles other = Certificate("other", "DNS:node-2");
  EXPECT_TRUE(Operator("", other)->GetStatus(kPatienceSeconds).ok());  // any certificate of the authority
  EXPECT_THAT(std::string(Stop("", other).message()), HasSubstr("zerofleet-operator; the one shown has node-2"));
  EXPECT_EQ(Stop("", worker).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Join("", other).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Join("", boss).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Join("", worker).ok());
  EXPECT_TRUE(Stop("", boss).ok());
}

TEST_F(CoordinatorCertificatesTest, AWorkerWithTheRightNameInAUriMayNotPoseAsTheCoordinator) {
  options_.tls = Certificate("impostor", "IP:127.0.0.1,DNS:zerofleet-worker");  // a worker's certificate
  options_.access.worker_name = "spiffe://prod/trainer";
  Start();
  TlsFiles worker = Certificate("worker", "URI:spiffe://prod/trainer");
  EXPECT_FALSE(Operator("", worker)->GetStatus(1).ok());  // this client requires a server named zerofleet-coordinator
  worker.server_name = "";
  EXPECT_TRUE(Operator("", worker)->GetStatus(kPatienceSeconds).ok());  // this one requires only the address's host
  EXPECT_TRUE(Join("", worker).ok());
}

}  // namespace
}  // namespace zerofleet::services
