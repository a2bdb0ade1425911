// The coordinator's gRPC service: each call becomes events of the loop, and the loop's outputs messages of the call.
//
// Includes gRPC's headers; only .cc files of this folder include it.
#ifndef ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_SERVICE_H_
#define ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "services/common/refusals.h"
#include "services/coordinator/coordinator_loop.h"
#include "services/security/access.h"
#include "zerofleet/v1/coordinator.grpc.pb.h"

namespace zerofleet::services {

class CoordinatorService : public v1::Coordinator::CallbackService {
 public:
  // `loop` and `refusals` outlive the server that serves this.
  CoordinatorService(CoordinatorLoop& loop, AccessControl access, Refusals& refusals)
      : loop_(loop), access_(std::move(access)), refusals_(refusals) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Session(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context, const v1::GetStatusRequest* request,
                                      v1::GetStatusResponse* response) override;
  grpc::ServerWriteReactor<v1::Event>* Watch(grpc::CallbackServerContext* context,
                                             const v1::WatchRequest* request) override;
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context, const v1::StopRequest* request,
                                 v1::StopResponse* response) override;

  // When the status was last asked for; 1970 if it never was. From any thread.
  absl::Time last_asked() const { return absl::FromUnixNanos(asked_unix_nanos_); }

 private:
  // Whether the caller may do this; reports a refusal to `refusals_`.
  absl::Status Admit(Role role, const grpc::CallbackServerContext& context);

  CoordinatorLoop& loop_;
  const AccessControl access_;
  Refusals& refusals_;
  std::atomic<int64_t> asked_unix_nanos_ = 0;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_SERVICE_H_
