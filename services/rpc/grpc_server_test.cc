// Health, reflection and a port in use, on real sockets.
#include "services/rpc/grpc_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "services/rpc/grpc_common.h"
#include "services/rpc/user_timeouts_testing.h"
#include "zerofleet/v1/worker.grpc.pb.h"

namespace zerofleet::services {
namespace {

using ::testing::HasSubstr;

std::string Local(int port) { return absl::StrCat("127.0.0.1:", port); }

// One unary call by its path, in serialised messages: health and reflection have no generated stubs here.
std::string Call(int port, const std::string& path, const std::string& request) {
  grpc::GenericStub stub(MakeChannel({"127.0.0.1", port}));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, path, &queue);
  call->StartCall(nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice slice(request);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  if (!status.ok()) return absl::StrCat("error ", status.error_code());
  std::vector<grpc::Slice> slices;
  response.Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& part : slices) bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  return bytes;
}

// grpc.health.v1.HealthCheckRequest is {string service = 1}, its response {enum status = 1}: 1 serving, 2 not.
std::string Health(int port, const std::string& service) {
  const std::string request = service.empty() ? "" : std::string("\x0a") + static_cast<char>(service.size()) + service;
  return Call(port, "/grpc.health.v1.Health/Check", request);
}
// A socket connected to this port of this machine; -1 if that fails.
int ConnectedTo(int port) {
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (client >= 0 && connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return client;
  if (client >= 0) close(client);
  return -1;
}

constexpr absl::Duration kPatience = absl::Seconds(60);
const char kServing[] = "\x08\x01";
const char kNotServing[] = "\x08\x02";

TEST(GrpcServer, AnswersHealthChecksForItselfAndForNamedServices) {
  const auto server = StartGrpcServer({.listen = "127.0.0.1:0", .health_names = {"zerofleet.v1.Worker"}});
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  EXPECT_EQ(Health(port, ""), kServing);
  EXPECT_EQ(Health(port, "zerofleet.v1.Worker"), kServing);
  EXPECT_THAT(Health(port, "zerofleet.v1.Nobody"), HasSubstr("error"));
  (*server)->SetServing(false);
  EXPECT_EQ(Health(port, ""), kNotServing);
  EXPECT_EQ(Health(port, "zerofleet.v1.Worker"), kNotServing);
}

TEST(GrpcServer, BothEndsOfAConnectionEndItWhenNobodyAcknowledges) {
  const auto server = StartGrpcServer({.listen = "127.0.0.1:0"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::shared_ptr<grpc::Channel> channel = MakeChannel({"127.0.0.1", (*server)->port()});
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
  EXPECT_THAT(UserTimeouts((*server)->port()),
              ::testing::UnorderedElementsAre(kKeepaliveTimeoutMs, kKeepaliveTimeoutMs));
}

TEST(GrpcServer, AServerWaitsForAnswersAsLongAsItIsTold) {
  const auto server = StartGrpcServer({.listen = "127.0.0.1:0", .answer_timeout_ms = 60'000});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::shared_ptr<grpc::Channel> channel = MakeChannel({"127.0.0.1", (*server)->port()});
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
  EXPECT_THAT(UserTimeouts((*server)->port()), ::testing::UnorderedElementsAre(kKeepaliveTimeoutMs, 60'000));
}

// Pings have the same time-out as bytes, and a client's pings do not count as strikes, or a GOAWAY would end its calls.
TEST(GrpcServer, PingsAreSentAndBorne) {
  const std::map<std::string, int> arguments = ServerArguments({.listen = "127.0.0.1:0", .answer_timeout_ms = 60'000});
  EXPECT_EQ(arguments.at(GRPC_ARG_KEEPALIVE_TIME_MS), kKeepaliveTimeMs);
  EXPECT_EQ(arguments.at(GRPC_ARG_KEEPALIVE_TIMEOUT_MS), 60'000);
  EXPECT_EQ(arguments.at(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA), 0);  // any number
  EXPECT_EQ(arguments.at(GRPC_ARG_HTTP2_MAX_PING_STRIKES), 0);
}

// Takes the descriptors that this process may open, 256 in all, and gives them back at its end.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~NoDescriptors() {
    for (const int descriptor : taken_) close(descriptor);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  // Takes all free descriptors but one.
  void Take() {
    for (int descriptor = dup(0); descriptor >= 0; descriptor = dup(0)) taken_.push_back(descriptor);
    close(taken_.back());
    taken_.pop_back();
  }

 private:
  rlimit before_;
  std::vector<int> taken_;
};

TEST(GrpcServer, ServesAgainAfterAMomentWithoutDescriptors) {
  const auto server = StartGrpcServer({.listen = "127.0.0.1:0"});
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_EQ(Health((*server)->port(), ""), kServing);
  {
    NoDescriptors none;
    for (bool served = true; served;) {  // a descriptor that another connection freed may serve one client
      none.Take();
      const int client = ConnectedTo((*server)->port());  // the client takes the last descriptor
      ASSERT_GE(client, 0);
      char byte;
      served = recv(client, &byte, 1, 0) > 0;
      close(client);
    }
  }
  EXPECT_EQ(Health((*server)->port(), ""), kServing);
  EXPECT_TRUE((*server)->Answers(kPatience).ok());
}

TEST(GrpcServer, AnswersUntilItIsShutDown) {
  const auto server = StartGrpcServer({.listen = "0.0.0.0:0"});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE((*server)->Answers(kPatience).ok()) << (*server)->Answers(kPatience);
  (*server)->Shutdown(0);
  EXPECT_TRUE((*server)->Answers(kPatience).ok());  // a server that was shut down counts as healthy
  EXPECT_EQ(ConnectedTo((*server)->port()), -1);
}

TEST(GrpcServer, TooManyConnectionsOfAnAddressAreTurnedAway) {
  std::atomic<int> turned_away = 0;
  const auto server = StartGrpcServer({.listen = "127.0.0.1:0",
                                       .most_per_address = 3,
                                       .turned_away = [&](const std::string&, const std::string&) { ++turned_away; }});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<int> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(ConnectedTo((*server)->port()));
  const int one_more = ConnectedTo((*server)->port());
  char byte;
  EXPECT_LE(recv(one_more, &byte, 1, 0), 0);
  EXPECT_EQ(turned_away, 1);
  EXPECT_TRUE((*server)->Answers(kPatience).ok());  // there is room for its own probe
  for (const int client : clients) close(client);
  close(one_more);
  EXPECT_EQ(Health((*server)->port(), ""), kServing);  // takes the place of one that has left
}

TEST(GrpcServer, APortInUseIsNamed) {
  const auto first = StartGrpcServer({.listen = "127.0.0.1:0"});
  ASSERT_TRUE(first.ok());
  const std::string address = Local((*first)->port());
  const auto second = StartGrpcServer({.listen = address});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST(GrpcServer, AMalformedAddressIsAUsageError) {
  const auto server = StartGrpcServer({.listen = "7070"});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(GrpcServer, ItsServicesAreListedByReflection) {
  v1::Worker::Service service;
  const auto server = StartGrpcServer({.listen = "127.0.0.1:0", .services = {&service}});
  ASSERT_TRUE(server.ok());
  // ServerReflectionRequest {string list_services = 7}.
  const std::string services = Call((*server)->port(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                    std::string("\x3a\x01*"));
  EXPECT_THAT(services, HasSubstr("zerofleet.v1.Worker"));
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
}

}  // namespace
}  // namespace zerofleet::services
