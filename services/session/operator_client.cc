// GetStatus, Watch and Stop over gRPC; see operator_client.h.
#include "services/session/operator_client.h"

#include <chrono>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/status.h"
#include "grpcpp/client_context.h"
#include "services/common/address.h"
#include "services/rpc/grpc_common.h"
#include "zerofleet/v1/coordinator.grpc.pb.h"

namespace zerofleet::services {

namespace {

std::chrono::system_clock::time_point In(double seconds) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::duration<double>(seconds));
}

}  // namespace

struct OperatorClient::Impl {
  std::string coordinator, token;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Coordinator::Stub> stub;

  uint64_t log = 0, number = 0;  // the last event's that was passed on

  absl::Mutex mutex;
  grpc::ClientContext* watch ABSL_GUARDED_BY(mutex) = nullptr;  // the watch in progress
  bool watch_cancelled ABSL_GUARDED_BY(mutex) = false;

  // Waits for the channel, to distinguish a coordinator that cannot be reached from one that is slow to answer.
  absl::Status Prepare(grpc::ClientContext& context, double timeout_seconds) {
    const auto deadline = In(timeout_seconds);
    if (!channel->WaitForConnected(deadline)) {
      return NoCoordinator(channel, coordinator, timeout_seconds);
    }
    context.set_deadline(deadline);
    ShowToken(context, token);
    return absl::OkStatus();
  }

  // Whether no earlier watch of the same coordinator has passed the event on.
  bool IsNew(const v1::Event& event) {
    if (event.log() == 0) return true;
    if (event.log() == log && event.number() <= number) return false;
    log = event.log();
    number = event.number();
    return true;
  }

  absl::Status Result(const grpc::Status& status) { return FromGrpc(status, "coordinator at " + coordinator); }
};

OperatorClient::OperatorClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OperatorClient::~OperatorClient() = default;

absl::StatusOr<std::unique_ptr<OperatorClient>> OperatorClient::Create(const std::string& coordinator,
                                                                       const TlsFiles& tls, const std::string& token) {
  ZF_ASSIGN_OR_RETURN(const Address address, ParseAddress(coordinator));
  ZF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials, ChannelCredentialsFrom(tls));
  auto impl = std::make_unique<Impl>();
  impl->coordinator = coordinator;
  impl->token = token;
  impl->channel = MakeChannel(address, credentials, tls.server_name);
  impl->stub = v1::Coordinator::NewStub(impl->channel);
  return std::unique_ptr<OperatorClient>(new OperatorClient(std::move(impl)));
}

absl::StatusOr<v1::GetStatusResponse> OperatorClient::GetStatus(double timeout_seconds,
                                                                const v1::GetStatusRequest& request) {
  grpc::ClientContext context;
  ZF_RETURN_IF_ERROR(impl_->Prepare(context, timeout_seconds));
  v1::GetStatusResponse response;
  ZF_RETURN_IF_ERROR(impl_->Result(impl_->stub->GetStatus(&context, request, &response)));
  return response;
}

absl::Status OperatorClient::Stop(const std::string& reason, double timeout_seconds) {
  grpc::ClientContext context;
  ZF_RETURN_IF_ERROR(impl_->Prepare(context, timeout_seconds));
  v1::StopRequest request;
  request.set_reason(reason);
  v1::StopResponse response;
  return impl_->Result(impl_->stub->Stop(&context, request, &response));
}

bool OperatorClient::WaitForCoordinator(double seconds) { return impl_->channel->WaitForConnected(In(seconds)); }

absl::Status OperatorClient::Watch(const std::function<void(const v1::Event&)>& on_event) {
  grpc::ClientContext context;
  {
    absl::MutexLock lock(&impl_->mutex);
    ZF_CHECK(impl_->watch == nullptr);
    if (impl_->watch_cancelled) context.TryCancel();
    impl_->watch = &context;
  }
  ShowToken(context, impl_->token);
  v1::WatchRequest request;
  request.set_hold(true);
  const std::unique_ptr<grpc::ClientReader<v1::Event>> events = impl_->stub->Watch(&context, request);
  v1::Event event;
  while (events->Read(&event)) {
    if (impl_->IsNew(event)) on_event(event);
  }
  const grpc::Status end = events->Finish();
  absl::MutexLock lock(&impl_->mutex);
  impl_->watch = nullptr;
  if (std::exchange(impl_->watch_cancelled, false) && !end.ok()) {
    return absl::CancelledError("the watch was cancelled");
  }
  return impl_->Result(end);
}

void OperatorClient::CancelWatch() {
  absl::MutexLock lock(&impl_->mutex);
  impl_->watch_cancelled = true;
  if (impl_->watch != nullptr) impl_->watch->TryCancel();
}

}  // namespace zerofleet::services
