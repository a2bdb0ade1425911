// Health, reflection and a port in use, on real sockets.
#include "services/grpc_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "services/grpc_common.h"
#include "services/worker_service.h"
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

// TCP_USER_TIMEOUT of every established TCP connection of this process whose local or remote port is `port`.
std::vector<unsigned> UserTimeouts(int port) {
  std::vector<unsigned> timeouts;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in local = {}, remote = {};
    socklen_t local_size = sizeof(local), remote_size = sizeof(remote);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) != 0) continue;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &remote_size) != 0) continue;
    if (ntohs(local.sin_port) != port && ntohs(remote.sin_port) != port) continue;
    unsigned timeout = 0;
    socklen_t size = sizeof(timeout);
    if (getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &size) == 0) timeouts.push_back(timeout);
  }
  return timeouts;
}

TEST(GrpcServer, BothEndsOfAConnectionEndItWhenNobodyAcknowledges) {
  const auto server = StartGrpcServer({.listen = "127.0.0.1:0"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::shared_ptr<grpc::Channel> channel = MakeChannel({"127.0.0.1", (*server)->port()});
  ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
  EXPECT_THAT(UserTimeouts((*server)->port()),
              ::testing::UnorderedElementsAre(kKeepaliveTimeoutMs, kKeepaliveTimeoutMs));
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

TEST(WorkerService, IsListedByReflection) {
  const auto service = WorkerService::Start({});
  ASSERT_TRUE(service.ok());
  // ServerReflectionRequest {string list_services = 7}.
  const std::string services = Call(
      (*service)->port(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", std::string("\x3a\x01*"));
  EXPECT_THAT(services, HasSubstr("zerofleet.v1.Worker"));
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
}

}  // namespace
}  // namespace zerofleet::services
