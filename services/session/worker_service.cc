// A worker's snapshots over gRPC; see worker_service.h.
#include "services/session/worker_service.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/clock.h"
#include "base/status.h"
#include "coordinator/config_digest.h"
#include "services/rpc/grpc_common.h"
#include "services/rpc/grpc_server.h"
#include "services/security/access.h"
#include "worker/trainer/snapshot_transfer.h"
#include "zerofleet/v1/worker.grpc.pb.h"

namespace zerofleet::services {

namespace {

constexpr int kMostTransfers = 4;  // at a time; a rank sends copies to one rank and gets them from one
// The size of a piece of data, or of a header, most of which is its configuration.
constexpr int kMostPieceBytes = std::max(trainer::kSnapshotPieceBytes, coordinator::kMostConfigBytes) + (64 << 10);

}  // namespace

struct WorkerService::Impl final : v1::Worker::Service {
  std::shared_ptr<trainer::SnapshotStore> snapshots;
  std::optional<AccessControl> access;
  std::shared_ptr<Refusals> refusals;  // never null
  std::atomic<int> transfers = 0;
  std::unique_ptr<GrpcServer> server;

  grpc::Status PutReplica(grpc::ServerContext* context, grpc::ServerReader<v1::ReplicaPiece>* stream,
                          v1::PutReplicaResponse*) override {
    return ToGrpc(Transfer(*context, [&] { return Receive(*stream); }));
  }

  grpc::Status GetReplica(grpc::ServerContext* context, const v1::SnapshotShard* shard,
                          grpc::ServerWriter<v1::ReplicaPiece>* stream) override {
    return ToGrpc(Transfer(*context, [&] { return Serve(*shard, *stream); }));
  }

  absl::Status Transfer(const grpc::ServerContext& context, const std::function<absl::Status()>& body) {
    const absl::Status allowed = access->Check(Role::kWorker, PeerOf(context));
    if (!allowed.ok()) {
      refusals->AddCall(AddressOfPeer(context.peer()), allowed);
      return allowed;
    }
    if (snapshots == nullptr) return absl::FailedPreconditionError("this worker keeps no snapshots for others");
    const int before = transfers.fetch_add(1);
    const absl::Cleanup done = [this] { --transfers; };
    if (before >= kMostTransfers) return absl::ResourceExhaustedError("too many snapshots are on their way");
    return body();
  }

  absl::Status Receive(grpc::ServerReader<v1::ReplicaPiece>& stream) {
    trainer::ReplicaSink kept(*snapshots);
    trainer::IncomingSnapshot snapshot(kept);
    v1::ReplicaPiece piece;
    while (stream.Read(&piece)) ZF_RETURN_IF_ERROR(snapshot.Take(piece));
    return snapshot.complete() ? absl::OkStatus() : absl::DataLossError("the snapshot ended before its digest");
  }

  absl::Status Serve(const v1::SnapshotShard& shard, grpc::ServerWriter<v1::ReplicaPiece>& stream) {
    trainer::OutgoingSnapshot snapshot(*snapshots, shard);
    while (true) {
      ZF_ASSIGN_OR_RETURN(const std::optional<v1::ReplicaPiece> piece, snapshot.Next());
      if (!piece) return absl::OkStatus();
      if (!stream.Write(*piece)) return absl::AbortedError("the caller has left");
    }
  }
};

WorkerService::WorkerService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerService::~WorkerService() { impl_->server.reset(); }  // before the service it serves

absl::StatusOr<std::unique_ptr<WorkerService>> WorkerService::Start(WorkerServiceOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->snapshots = std::move(options.snapshots);
  impl->refusals = options.refusals != nullptr ? std::move(options.refusals)
                                               : std::make_shared<Refusals>(Refusals::Sinks(), Clock::Real());
  AccessOptions access;
  access.worker_token = options.token;
  access.certificates = !options.tls.certificate.empty();
  impl->access.emplace(std::move(access));
  // A worker that only verifies the coordinator has no certificate to serve TLS with.
  const TlsFiles tls = options.tls.certificate.empty() ? TlsFiles{} : options.tls;
  ZF_ASSIGN_OR_RETURN(impl->server, StartGrpcServer({.listen = options.listen,
                                                     .services = {impl.get()},
                                                     .health_names = {v1::Worker::service_full_name()},
                                                     .tls = tls,
                                                     .observer = ObserverOf(impl->refusals),
                                                     .most_message_bytes = kMostPieceBytes,
                                                     .turned_away = TurnedAwayTo(impl->refusals)}));
  return std::unique_ptr<WorkerService>(new WorkerService(std::move(impl)));
}

absl::Status WorkerService::Answers() { return impl_->server->Answers(kProbeLimit); }
int WorkerService::port() const { return impl_->server->port(); }
void WorkerService::SetServing(bool serving) { impl_->server->SetServing(serving); }

}  // namespace zerofleet::services
