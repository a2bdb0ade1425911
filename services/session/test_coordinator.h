// For tests: a coordinator on a loopback port whose session is whatever function the test gives it.
#ifndef ZEROFLEET_SERVICES_SESSION_TEST_COORDINATOR_H_
#define ZEROFLEET_SERVICES_SESSION_TEST_COORDINATOR_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "services/rpc/grpc_server.h"
#include "zerofleet/v1/coordinator.grpc.pb.h"

namespace zerofleet::services {

// How long a test waits for something that should happen at once.
inline constexpr double kPatienceSeconds = 20;

class TestCoordinator final : public v1::Coordinator::Service {
 public:
  using SessionStream = grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>;
  using SessionHandler = std::function<grpc::Status(SessionStream&)>;

  explicit TestCoordinator(SessionHandler session, const TlsFiles& tls = {}, const TlsObserver& observer = {})
      : session_(std::move(session)) {
    auto server = StartGrpcServer({.listen = "127.0.0.1:0", .services = {this}, .tls = tls, .observer = observer});
    ZF_CHECK(server.ok());
    server_ = *std::move(server);
  }
  ~TestCoordinator() override { Kill(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", server_->port()); }

  // Ends every call at once, as the loss of the process would.
  void Kill() { server_->Shutdown(0); }

  grpc::Status Session(grpc::ServerContext*, SessionStream* stream) override { return session_(*stream); }

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*, v1::GetStatusResponse* response) override {
    response->set_phase("training");
    response->set_step(42);
    return grpc::Status::OK;
  }

  grpc::Status Stop(grpc::ServerContext*, const v1::StopRequest* request, v1::StopResponse*) override {
    if (request->reason().empty()) return {grpc::StatusCode::INVALID_ARGUMENT, "a stop needs a reason"};
    return grpc::Status::OK;
  }

  // Sends `steps` steps, then the run's end, a broken stream, or nothing until the watcher leaves.
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::Event>* out) override {
    v1::Event event;
    event.set_log(17);
    for (int step = 1; step <= steps; ++step) {
      event.mutable_step()->set_step(step);
      event.set_number(step);
      out->Write(event);
    }
    if (watch_breaks) return {grpc::StatusCode::UNAVAILABLE, "keepalive watchdog timeout"};
    while (watch_stays_open && !context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::OK;
  }
  bool watch_stays_open = false, watch_breaks = false;  // set between calls
  int steps = 2;

 private:
  const SessionHandler session_;
  std::unique_ptr<GrpcServer> server_;
};

// For tests in which no worker joins.
inline grpc::Status NoSession(TestCoordinator::SessionStream&) { return grpc::Status::OK; }

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_TEST_COORDINATOR_H_
