// Streams of pieces over gRPC, and their end with a view; see snapshot_client.h.
#include "services/session/snapshot_client.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status.h"
#include "grpcpp/client_context.h"
#include "services/common/address.h"
#include "services/rpc/grpc_common.h"
#include "services/security/access.h"
#include "zerofleet/v1/worker.grpc.pb.h"

namespace zerofleet::services {
namespace {

absl::Status ViewIsOver() { return absl::AbortedError("the view is over"); }

}  // namespace

struct SnapshotClient::Impl {
  // A call that is cancelled at the end of its view; not registered if the view is over already.
  class Call {
   public:
    Call(Impl& impl, uint64_t generation, double limit_seconds) : impl_(impl), entry_(generation, &context) {
      const auto limit = std::chrono::duration<double>(limit_seconds);
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::system_clock::duration>(limit));
      ShowToken(context, impl.options.token);
      CarryTrace(context, impl.options.trace_id());
      absl::MutexLock lock(&impl_.mutex);
      if (generation >= impl_.over_before) impl_.calls.insert(entry_);
    }
    ~Call() {
      absl::MutexLock lock(&impl_.mutex);
      impl_.calls.erase(entry_);
    }
    bool over() const {
      absl::MutexLock lock(&impl_.mutex);
      return entry_.first < impl_.over_before;
    }

    grpc::ClientContext context;

   private:
    Impl& impl_;
    const std::pair<uint64_t, grpc::ClientContext*> entry_;
  };

  absl::StatusOr<std::unique_ptr<v1::Worker::Stub>> StubOf(const std::string& address) {
    ZF_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
    ZF_ASSIGN_OR_RETURN(const TlsFiles tls, PeerTls(options.tls));
    ZF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials, ChannelCredentialsFrom(tls));
    return v1::Worker::NewStub(MakeChannel(parsed, credentials, tls.server_name));
  }

  SnapshotClientOptions options;
  absl::Mutex mutex;
  uint64_t over_before ABSL_GUARDED_BY(mutex) = 0;
  std::set<std::pair<uint64_t, grpc::ClientContext*>> calls ABSL_GUARDED_BY(mutex);  // by generation
};

SnapshotClient::SnapshotClient(SnapshotClientOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
}
SnapshotClient::~SnapshotClient() = default;

absl::Status SnapshotClient::Put(const std::string& address, uint64_t generation, double limit_seconds,
                                 trainer::OutgoingSnapshot& snapshot) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<v1::Worker::Stub> stub, impl_->StubOf(address));
  Impl::Call call(*impl_, generation, limit_seconds);
  if (call.over()) return ViewIsOver();
  v1::PutReplicaResponse response;
  const std::unique_ptr<grpc::ClientWriter<v1::ReplicaPiece>> stream = stub->PutReplica(&call.context, &response);
  absl::Status status;
  while (true) {
    absl::StatusOr<std::optional<v1::ReplicaPiece>> piece = snapshot.Next();
    status = piece.status();
    if (!status.ok()) call.context.TryCancel();
    if (!status.ok() || !piece->has_value() || !stream->Write(**piece)) break;
  }
  stream->WritesDone();
  const absl::Status answer = FromGrpc(stream->Finish(), absl::StrCat("the worker at ", address));
  if (call.over()) return ViewIsOver();
  return status.ok() ? answer : status;
}

absl::Status SnapshotClient::Get(const std::string& address, uint64_t generation, double limit_seconds,
                                 const v1::SnapshotShard& shard, trainer::IncomingSnapshot& snapshot) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<v1::Worker::Stub> stub, impl_->StubOf(address));
  Impl::Call call(*impl_, generation, limit_seconds);
  if (call.over()) return ViewIsOver();
  const std::unique_ptr<grpc::ClientReader<v1::ReplicaPiece>> stream = stub->GetReplica(&call.context, shard);
  absl::Status status;
  v1::ReplicaPiece piece;
  while (status.ok() && stream->Read(&piece)) status = snapshot.Take(piece);
  if (!status.ok()) call.context.TryCancel();
  const absl::Status answer = FromGrpc(stream->Finish(), absl::StrCat("the worker at ", address));
  if (call.over()) return ViewIsOver();
  ZF_RETURN_IF_ERROR(Annotate(status, absl::StrCat("the worker at ", address)));
  ZF_RETURN_IF_ERROR(answer);
  return snapshot.complete() ? absl::OkStatus()
                             : absl::DataLossError(absl::StrCat("the worker at ", address, " sent only a part"));
}

void SnapshotClient::EndViewsBefore(uint64_t generation) {
  absl::MutexLock lock(&impl_->mutex);
  impl_->over_before = std::max(impl_->over_before, generation);
  for (const auto& [of, context] : impl_->calls) {
    if (of < impl_->over_before) context->TryCancel();
  }
}

}  // namespace zerofleet::services
