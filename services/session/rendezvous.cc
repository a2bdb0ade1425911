// The group's members under one lock, and a thread per client that waits for the group's end; see rendezvous.h.
#include "services/session/rendezvous.h"

#include <chrono>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/server_context.h"
#include "services/common/address.h"
#include "services/rpc/grpc_common.h"
#include "services/rpc/grpc_server.h"
#include "zerofleet/v1/rendezvous.grpc.pb.h"

namespace zerofleet::services {
namespace {

// How soon a cancellation is noticed.
constexpr absl::Duration kTick = absl::Milliseconds(100);
// How long the other ranks' calls may take to end by themselves.
constexpr double kShutdownSeconds = 2;

}  // namespace

struct RendezvousServer::Impl final : v1::Rendezvous::Service {
  explicit Impl(int group_size) : ranks(group_size) {}

  grpc::Status Join(grpc::ServerContext* context, const v1::JoinRequest* request,
                    grpc::ServerWriter<v1::Group>* writer) override {
    v1::Group group;
    {
      absl::MutexLock lock(&mutex);
      if (!broken.ok() || IsComplete()) {
        return {grpc::StatusCode::FAILED_PRECONDITION, absl::StrCat("its group of ", ranks, " ranks is complete")};
      }
      group.set_rank(static_cast<int>(members.size()));
      members.push_back(*request);
      const grpc::Status status = Await(*context, group.rank(), &Impl::IsComplete);
      if (!status.ok()) return status;
      for (const v1::JoinRequest& member : members) group.add_transport_addresses(member.transport_address());
    }
    writer->Write(group);
    absl::MutexLock lock(&mutex);
    return Await(*context, group.rank(), &Impl::AllAreDone);
  }

  grpc::Status Done(grpc::ServerContext*, const v1::DoneRequest* request, v1::DoneResponse*) override {
    absl::MutexLock lock(&mutex);
    done.insert(request->rank());
    return grpc::Status::OK;
  }

  // Waits until `reached`, or until a rank has left: this one, as its call's cancellation shows, or another.
  grpc::Status Await(const grpc::ServerContext& context, int rank, bool (Impl::*reached)() const)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    while (broken.ok() && !(this->*reached)()) {
      changed.WaitWithTimeout(&mutex, kTick);
      if (!context.IsCancelled() || done.count(rank) > 0) continue;
      broken = {grpc::StatusCode::UNAVAILABLE, absl::StrCat("rank ", rank, " (", members[rank].host(), ") has left")};
      changed.SignalAll();
    }
    return (this->*reached)() ? grpc::Status::OK : broken;
  }

  bool IsComplete() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return static_cast<int>(members.size()) == ranks; }
  bool AllAreDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return static_cast<int>(done.size()) == ranks; }

  const int ranks;
  absl::Mutex mutex;
  absl::CondVar changed;
  std::vector<v1::JoinRequest> members ABSL_GUARDED_BY(mutex);  // by rank
  std::set<int> done ABSL_GUARDED_BY(mutex);
  grpc::Status broken ABSL_GUARDED_BY(mutex);  // why the group has ended early
  std::unique_ptr<GrpcServer> server;
};

RendezvousServer::RendezvousServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

RendezvousServer::~RendezvousServer() {
  impl_->server->Shutdown(kShutdownSeconds);
  impl_->server.reset();  // before the service it serves
}

int RendezvousServer::port() const { return impl_->server->port(); }

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(const std::string& listen, int ranks) {
  auto impl = std::make_unique<Impl>(ranks);
  ZF_ASSIGN_OR_RETURN(impl->server, StartGrpcServer({.listen = listen, .services = {impl.get()}}));
  return std::unique_ptr<RendezvousServer>(new RendezvousServer(std::move(impl)));
}

struct RendezvousClient::Impl {
  ~Impl() {
    context.TryCancel();
    if (reader.joinable()) reader.join();
  }

  // The reading thread: reads the group, then waits for the end.
  void Read() {
    v1::Group group;
    if (stream->Read(&group)) {
      absl::MutexLock lock(&mutex);
      joined = std::move(group);
    }
    while (stream->Read(&group)) continue;
    const absl::Status status = FromGrpc(stream->Finish(), absl::StrCat("the group that meets at ", server));
    std::function<void(absl::Status)> handler;
    {
      absl::MutexLock lock(&mutex);
      end = status;
      handler = std::exchange(on_lost, nullptr);
    }
    if (handler && !status.ok()) handler(status);
  }

  absl::Status Connect(const RendezvousOptions& options) {
    ZF_ASSIGN_OR_RETURN(const Address address, ParseAddress(server));
    channel = MakeChannel(address);
    const double deadline = Clock::Real().MonotonicSeconds() + options.connect_timeout_seconds;
    while (!channel->WaitForConnected(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kTick))) {
      ZF_RETURN_IF_ERROR(Cancelled(options));
      if (Clock::Real().MonotonicSeconds() < deadline) continue;
      return absl::UnavailableError(absl::StrCat("no group of ranks meets at ", server, " (waited ",
                                                 options.connect_timeout_seconds,
                                                 " s); one rank must be started with --listen there"));
    }
    return absl::OkStatus();
  }

  absl::Status AwaitGroup(const RendezvousOptions& options) {
    absl::MutexLock lock(&mutex);
    while (!mutex.AwaitWithTimeout(absl::Condition(this, &Impl::HasJoinedOrEnded), kTick)) {
      ZF_RETURN_IF_ERROR(Cancelled(options));
    }
    if (joined) return absl::OkStatus();
    return end->ok() ? absl::UnavailableError(absl::StrCat("the group that meets at ", server, " has ended")) : *end;
  }

  static absl::Status Cancelled(const RendezvousOptions& options) {
    if (!options.cancelled || !options.cancelled()) return absl::OkStatus();
    return absl::CancelledError(absl::StrCat("stopped while waiting for the ranks that meet at ", options.server));
  }

  bool HasJoinedOrEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return joined.has_value() || end.has_value(); }
  bool HasEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return end.has_value(); }

  std::string server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Rendezvous::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::Group>> stream;
  int rank = 0;
  std::vector<std::string> transport_addresses;

  absl::Mutex mutex;
  std::optional<v1::Group> joined ABSL_GUARDED_BY(mutex);
  std::optional<absl::Status> end ABSL_GUARDED_BY(mutex);
  std::function<void(absl::Status)> on_lost ABSL_GUARDED_BY(mutex);
  std::thread reader;
};

RendezvousClient::RendezvousClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RendezvousClient::~RendezvousClient() = default;

int RendezvousClient::rank() const { return impl_->rank; }
const std::vector<std::string>& RendezvousClient::transport_addresses() const { return impl_->transport_addresses; }

absl::StatusOr<std::unique_ptr<RendezvousClient>> RendezvousClient::Join(const RendezvousOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->server = options.server;
  ZF_RETURN_IF_ERROR(impl->Connect(options));
  v1::JoinRequest request;
  request.set_host(options.host);
  request.set_transport_address(options.transport_address);
  impl->stub = v1::Rendezvous::NewStub(impl->channel);
  impl->stream = impl->stub->Join(&impl->context, request);
  impl->reader = std::thread([state = impl.get()] { state->Read(); });
  ZF_RETURN_IF_ERROR(impl->AwaitGroup(options));
  {
    absl::MutexLock lock(&impl->mutex);
    impl->rank = impl->joined->rank();
    const auto& addresses = impl->joined->transport_addresses();
    impl->transport_addresses = {addresses.begin(), addresses.end()};
  }
  return std::unique_ptr<RendezvousClient>(new RendezvousClient(std::move(impl)));
}

void RendezvousClient::OnLost(const std::function<void(absl::Status)>& handler) {
  absl::Status lost;
  {
    absl::MutexLock lock(&impl_->mutex);
    if (impl_->end) {
      lost = *impl_->end;
    } else {
      impl_->on_lost = handler;
    }
  }
  if (!lost.ok()) handler(lost);
}

absl::Status RendezvousClient::Done() {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::DoneRequest request;
  request.set_rank(impl_->rank);
  v1::DoneResponse response;
  ZF_RETURN_IF_ERROR(FromGrpc(impl_->stub->Done(&context, request, &response), "leaving the group"));
  absl::MutexLock lock(&impl_->mutex);
  impl_->mutex.Await(absl::Condition(impl_.get(), &Impl::HasEnded));
  return *impl_->end;
}

}  // namespace zerofleet::services
