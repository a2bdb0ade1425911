// The streams and threads of a session; see session_client.h. session_machine.h decides what happens, and when.
#include "services/session/session_client.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/kill_point.h"
#include "base/status.h"
#include "grpcpp/client_context.h"
#include "services/common/address.h"
#include "services/rpc/grpc_common.h"
#include "services/session/session_machine.h"
#include "zerofleet/v1/coordinator.grpc.pb.h"

namespace zerofleet::services {
namespace {

constexpr auto kConnectSlice = std::chrono::milliseconds(100);  // how soon the end of waiting is noticed

using Phase = SessionMachine::Phase;
using Stream = grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>;

double Now() { return Clock::Real().MonotonicSeconds(); }

// Waits until the channel is up; gRPC retries with backoff meanwhile.
absl::Status WaitForCoordinator(const std::shared_ptr<grpc::Channel>& channel, const SessionOptions& options) {
  constexpr double kSliceSeconds = 0.1;  // how soon a signal is noticed
  const double deadline = Clock::Real().MonotonicSeconds() + options.connect_timeout_seconds;
  for (;;) {
    if (options.cancelled && options.cancelled()) {
      return absl::CancelledError(absl::StrCat("stopped while connecting to the coordinator at ", options.coordinator));
    }
    const double left = deadline - Clock::Real().MonotonicSeconds();
    const auto slice = std::chrono::microseconds(static_cast<int64_t>(1e6 * std::clamp(left, 0.0, kSliceSeconds)));
    if (channel->WaitForConnected(std::chrono::system_clock::now() + slice)) return absl::OkStatus();
    if (left <= 0) return NoCoordinator(channel, options.coordinator, options.connect_timeout_seconds);
  }
}

StreamEnd EndOf(const grpc::Status& end, const std::string& coordinator) {
  if (end.ok()) {
    return {StreamEnd::Kind::kOver,
            absl::UnavailableError(absl::StrCat("the coordinator at ", coordinator, " ended the session"))};
  }
  const absl::Status lost = FromGrpc(end, absl::StrCat("lost the coordinator at ", coordinator));
  switch (end.error_code()) {
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::INVALID_ARGUMENT:
      return {StreamEnd::Kind::kOver,
              FromGrpc(end, absl::StrCat("the coordinator at ", coordinator, " refused this worker"))};
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED: return {StreamEnd::Kind::kBroken, lost};
    case grpc::StatusCode::RESOURCE_EXHAUSTED: return {StreamEnd::Kind::kFull, lost};
    default: return {StreamEnd::Kind::kOver, lost};
  }
}

}  // namespace

struct SessionClient::Impl {
  explicit Impl(const SessionOptions& given)
      : options(given),
        machine({.coordinator = given.coordinator,
                 .heartbeat_interval_seconds = given.heartbeat_interval_seconds,
                 .connect_timeout_seconds = given.connect_timeout_seconds,
                 .reconnect_seconds = given.reconnect_seconds}) {}

  // --- Set before the thread starts.
  const SessionOptions options;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Coordinator::Stub> stub;
  std::thread session;

  // --- Used by the session's thread, and by the writing thread while a stream lasts.
  std::unique_ptr<Stream> stream;
  std::mt19937 random{std::random_device()()};

  absl::Mutex mutex;
  SessionMachine machine ABSL_GUARDED_BY(mutex);
  std::unique_ptr<grpc::ClientContext> context ABSL_GUARDED_BY(mutex);  // the stream's
  std::function<v1::Heartbeat()> heartbeat ABSL_GUARDED_BY(mutex);
  std::function<void(absl::Status)> on_lost ABSL_GUARDED_BY(mutex);
  std::function<void(uint64_t, absl::Status)> on_regroup ABSL_GUARDED_BY(mutex);
  bool stream_over ABSL_GUARDED_BY(mutex) = false;  // nothing more can be read from the stream

  // --- Conditions to wait for.
  bool WriterHasWork() ABSL_SHARED_LOCKS_REQUIRED(mutex) { return stream_over || machine.HasWork(); }
  bool CanReceive() ABSL_SHARED_LOCKS_REQUIRED(mutex) { return machine.CanTake(); }
  bool CanNotify() ABSL_SHARED_LOCKS_REQUIRED(mutex) { return on_lost != nullptr || machine.closing(); }
  bool Closing() ABSL_SHARED_LOCKS_REQUIRED(mutex) { return machine.closing(); }
  bool IsOver() ABSL_SHARED_LOCKS_REQUIRED(mutex) { return machine.phase() == Phase::kOver; }

  // --- The session's thread: one stream after another.
  void Run() {
    do RunStream();
    while (OpenAgain());
    NotifyLost();
  }

  void RunStream() {
    std::thread writer([this] { WriteLoop(); });
    absl::Status reason;
    v1::CoordinatorMessage message;
    while (reason.ok() && stream->Read(&message)) reason = Arrived(std::move(message));
    {
      absl::MutexLock lock(&mutex);
      stream_over = true;
      if (!reason.ok()) context->TryCancel();
    }
    writer.join();
    const grpc::Status end = stream->Finish();
    const double jitter = std::uniform_real_distribution<>(0, 1)(random);
    std::optional<std::string> note;
    {
      absl::MutexLock lock(&mutex);
      note = machine.Ended(reason.ok() ? EndOf(end, options.coordinator) : StreamEnd{StreamEnd::Kind::kOver, reason},
                           Now(), jitter);
    }
    if (!note) return;
    ZF_KILL_POINT("session/broken");
    if (options.note) options.note(*note);
  }

  void Open() {
    stream.reset();  // before its context
    auto next = std::make_unique<grpc::ClientContext>();
    ShowToken(*next, options.token);
    CarryTrace(*next, options.trace_id());
    stream = stub->Session(next.get());
    absl::MutexLock lock(&mutex);
    context = std::move(next);
    stream_over = false;
    if (machine.closing()) context->TryCancel();  // Close came too early to do it
  }

  // Opens the next stream once a coordinator can be reached. False if the session is over.
  bool OpenAgain() {
    for (;;) {
      {
        absl::MutexLock lock(&mutex);
        if (machine.phase() == Phase::kPausing) {
          mutex.AwaitWithTimeout(absl::Condition(this, &Impl::Closing), absl::Seconds(machine.paused_until() - Now()));
        }
        machine.Tick(Now());
        if (machine.phase() == Phase::kOver) return false;
        if (machine.phase() == Phase::kPausing) continue;
      }
      if (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectSlice)) continue;
      absl::MutexLock lock(&mutex);
      machine.Connected(Now());
      if (machine.phase() == Phase::kOver) return false;
      break;
    }
    ZF_KILL_POINT("session/coordinator-is-back");
    Open();
    return true;
  }

  // OK, or why the session ends with this message.
  absl::Status Arrived(v1::CoordinatorMessage message) {
    if (message.has_regroup()) NotifyRegroup(message);
    absl::MutexLock lock(&mutex);
    const SessionMachine::Arrival arrival = machine.Arrived(std::move(message), Now());
    if (arrival.adopted) ZF_KILL_POINT("session/adopted");
    return arrival.status;
  }

  void NotifyRegroup(const v1::CoordinatorMessage& message) {
    std::function<void(uint64_t, absl::Status)> handler;
    {
      absl::MutexLock lock(&mutex);
      handler = on_regroup;
    }
    if (handler) handler(message.generation(), absl::AbortedError(message.regroup().reason()));
  }

  void NotifyLost() {
    absl::Status reason;
    std::function<void(absl::Status)> handler;
    {
      absl::MutexLock lock(&mutex);
      if (machine.completed()) return;
      mutex.Await(absl::Condition(this, &Impl::CanNotify));
      if (machine.closing()) return;
      reason = machine.lost();
      handler = std::move(on_lost);
    }
    handler(reason);
  }

  // --- A stream's writing thread: writes what is queued, and heartbeats when they are due.
  void WriteLoop() {
    while (std::optional<v1::WorkerMessage> message = NextToWrite()) {
      if (!stream->Write(*message)) break;
    }
    bool half_close = false;
    {
      absl::MutexLock lock(&mutex);
      half_close = machine.closing() && !stream_over;
    }
    if (half_close) stream->WritesDone();
  }

  // Waits for a message to write; nothing once the stream is over, or closing and all is written.
  std::optional<v1::WorkerMessage> NextToWrite() {
    for (;;) {
      std::function<v1::Heartbeat()> beat;
      {
        absl::MutexLock lock(&mutex);
        mutex.AwaitWithTimeout(absl::Condition(this, &Impl::WriterHasWork),
                               absl::Seconds(machine.NextHeartbeat() - Now()));
        if (stream_over) return std::nullopt;
        NextWrite next = machine.Next(Now());
        if (std::holds_alternative<WriteNoMore>(next)) return std::nullopt;
        if (auto* message = std::get_if<v1::WorkerMessage>(&next)) return std::move(*message);
        if (std::holds_alternative<WriteHeartbeat>(next)) beat = heartbeat;
      }
      if (!beat) continue;
      v1::Heartbeat said = beat();  // without the lock, since it calls the trainer
      absl::MutexLock lock(&mutex);
      return machine.Beat(std::move(said));
    }
  }

  void Start() {
    Open();
    session = std::thread([this] { Run(); });
  }

  void Close() {
    {
      absl::MutexLock lock(&mutex);
      machine.Close();
      mutex.AwaitWithTimeout(absl::Condition(this, &Impl::IsOver), absl::Seconds(options.linger_seconds));
      context->TryCancel();  // no effect on a stream that has ended
    }
    session.join();
  }
};

SessionClient::SessionClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SessionClient::~SessionClient() { impl_->Close(); }

absl::StatusOr<std::unique_ptr<SessionClient>> SessionClient::Connect(const SessionOptions& options) {
  ZF_ASSIGN_OR_RETURN(const Address address, ParseAddress(options.coordinator));
  if (address.port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("address \"", options.coordinator, "\" has port 0; a coordinator's port is from 1 to 65535"));
  }
  auto impl = std::make_unique<Impl>(options);
  ZF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials, ChannelCredentialsFrom(options.tls));
  impl->channel = MakeChannel(address, credentials, options.tls.server_name);
  ZF_RETURN_IF_ERROR(WaitForCoordinator(impl->channel, options));
  impl->stub = v1::Coordinator::NewStub(impl->channel);
  impl->Start();
  return std::unique_ptr<SessionClient>(new SessionClient(std::move(impl)));
}

absl::Status SessionClient::Send(v1::WorkerMessage message) {
  absl::MutexLock lock(&impl_->mutex);
  return impl_->machine.Send(std::move(message));
}

absl::StatusOr<v1::CoordinatorMessage> SessionClient::Receive(double timeout_seconds) {
  absl::MutexLock lock(&impl_->mutex);
  impl_->mutex.AwaitWithTimeout(absl::Condition(impl_.get(), &Impl::CanReceive), absl::Seconds(timeout_seconds));
  if (std::optional<v1::CoordinatorMessage> message = impl_->machine.Take()) return *std::move(message);
  if (!impl_->machine.lost().ok()) return impl_->machine.lost();
  return absl::DeadlineExceededError(
      absl::StrCat("the coordinator at ", impl_->options.coordinator, " sent nothing for ", timeout_seconds, " s"));
}

void SessionClient::StartHeartbeats(std::function<v1::Heartbeat()> heartbeat) {
  ZF_CHECK(heartbeat != nullptr);
  absl::MutexLock lock(&impl_->mutex);
  impl_->heartbeat = std::move(heartbeat);
  impl_->machine.StartHeartbeats();
}

void SessionClient::OnRegroup(std::function<void(uint64_t generation, absl::Status reason)> handler) {
  absl::MutexLock lock(&impl_->mutex);
  impl_->on_regroup = std::move(handler);
}

void SessionClient::OnLost(std::function<void(absl::Status)> handler) {
  ZF_CHECK(handler != nullptr);
  absl::MutexLock lock(&impl_->mutex);
  impl_->on_lost = std::move(handler);
}

}  // namespace zerofleet::services
