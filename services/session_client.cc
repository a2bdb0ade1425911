// The streams, threads and queues of a session; see session_client.h.
#include "services/session_client.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/kill_point.h"
#include "base/status.h"
#include "grpcpp/client_context.h"
#include "services/address.h"
#include "services/grpc_common.h"
#include "services/session_journal.h"
#include "zerofleet/v1/coordinator.grpc.pb.h"

namespace zerofleet::services {
namespace {

// Both sides say little: a queue this long means that the other end has stopped taking part.
constexpr size_t kQueueBound = 2 * SessionJournal::kMostEvents;

// Between two streams: it doubles as long as none is answered, and every worker waits a random part of it, so that a
// coordinator does not meet all at once.
constexpr double kFirstPauseSeconds = 0.05, kLongestPauseSeconds = 2;
constexpr auto kConnectSlice = std::chrono::milliseconds(100);  // how soon the end of waiting is noticed

constexpr double kDefaultHeartbeatSeconds = 0.5;
constexpr double kShortestHeartbeatSeconds = 0.05;
constexpr double kHeartbeatsPerTimeout = 4;

using Stream = grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>;

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

}  // namespace

double HeartbeatSeconds(double timeout_seconds) {
  return std::max(timeout_seconds / kHeartbeatsPerTimeout, kShortestHeartbeatSeconds);
}

struct SessionClient::Impl {
  // How a stream ended.
  struct StreamEnd {
    absl::Status reason;
    bool broke;  // without a word of the coordinator's: another may answer
  };

  // --- Set before the thread starts.
  SessionOptions options;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Coordinator::Stub> stub;
  std::thread session;

  // --- Of the session's thread, and of the writing thread while a stream lasts.
  std::unique_ptr<Stream> stream;
  std::mt19937 random{std::random_device()()};
  double pause = kFirstPauseSeconds;  // before the next stream
  double broken_since = 0;            // monotonic seconds

  absl::Mutex mutex;
  std::unique_ptr<grpc::ClientContext> context ABSL_GUARDED_BY(mutex);  // of the stream
  std::deque<v1::WorkerMessage> outgoing ABSL_GUARDED_BY(mutex);
  std::deque<v1::CoordinatorMessage> incoming ABSL_GUARDED_BY(mutex);
  SessionJournal journal ABSL_GUARDED_BY(mutex);
  uint64_t generation ABSL_GUARDED_BY(mutex) = 0;  // of the last message Receive returned
  std::function<v1::Heartbeat()> heartbeat ABSL_GUARDED_BY(mutex);
  double heartbeat_seconds ABSL_GUARDED_BY(mutex) = 0;  // 0: not known yet
  double next_heartbeat ABSL_GUARDED_BY(mutex) = 0;     // monotonic; 0: at once
  double give_up_seconds ABSL_GUARDED_BY(mutex) = 0;    // without a coordinator
  std::function<void(absl::Status)> on_lost ABSL_GUARDED_BY(mutex);
  std::function<void(uint64_t, absl::Status)> on_regroup ABSL_GUARDED_BY(mutex);
  absl::Status lost ABSL_GUARDED_BY(mutex);       // why there is no session any more
  bool completed ABSL_GUARDED_BY(mutex) = false;  // a Complete has come
  bool known ABSL_GUARDED_BY(mutex) = true;       // to who answers: false until it has welcomed a worker that came back
  bool stream_over ABSL_GUARDED_BY(mutex) = false;  // nothing more can be read from the stream
  bool closing ABSL_GUARDED_BY(mutex) = false;      // the destructor has begun
  bool ended ABSL_GUARDED_BY(mutex) = false;        // no stream follows

  // --- Conditions waited for.
  bool WriterHasWork() ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    const bool first_heartbeat = heartbeat != nullptr && next_heartbeat == 0 && known;
    return stream_over || closing || !outgoing.empty() || first_heartbeat;
  }
  bool CanReceive() ABSL_SHARED_LOCKS_REQUIRED(mutex) { return !incoming.empty() || !lost.ok(); }
  bool CanNotify() ABSL_SHARED_LOCKS_REQUIRED(mutex) { return on_lost != nullptr || closing; }

  // --- The session's thread: one stream after another.
  void Run() {
    StreamEnd end = RunStream();
    while (end.broke && OpenAgain(end.reason)) end = RunStream();
    NotifyLost(end.reason);
  }

  StreamEnd RunStream() {
    std::thread writer([this] { WriteLoop(); });
    absl::Status reason;
    v1::CoordinatorMessage message;
    while (reason.ok() && stream->Read(&message)) reason = Take(std::move(message));
    {
      absl::MutexLock lock(&mutex);
      stream_over = true;
      if (!reason.ok()) context->TryCancel();
    }
    writer.join();
    const grpc::Status end = stream->Finish();
    if (!reason.ok()) return {reason, false};
    return EndOfStream(end);
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
    if (closing) context->TryCancel();  // too late for Close to do it
  }

  // The next stream, once the coordinator answers again, with the Hello that says what this worker was doing. False if
  // none does in time, or nobody waits for it any more.
  bool OpenAgain(const absl::Status& why) {
    const double now = Clock::Real().MonotonicSeconds();
    if (broken_since == 0) {
      ZF_KILL_POINT("session/broken");
      broken_since = now;
      if (options.note) options.note(absl::StrCat(why.message(), "; going on, and connecting again"));
    }
    const double longest = std::exchange(pause, std::min(2 * pause, kLongestPauseSeconds));
    const absl::Duration jittered = absl::Seconds(longest * std::uniform_real_distribution<>(0.5, 1)(random));
    double deadline = 0;
    {
      absl::MutexLock lock(&mutex);
      deadline = broken_since + give_up_seconds;
      if (mutex.AwaitWithTimeout(absl::Condition(&closing), jittered)) return false;
    }
    while (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectSlice)) {
      absl::MutexLock lock(&mutex);
      if (closing || Clock::Real().MonotonicSeconds() > deadline) return false;
    }
    if (Clock::Real().MonotonicSeconds() > deadline) return false;
    ZF_KILL_POINT("session/coordinator-is-back");
    Open();
    absl::MutexLock lock(&mutex);
    outgoing.clear();  // the journal has what matters of it
    const std::optional<v1::WorkerMessage> hello = journal.Hello(Clock::Real().MonotonicSeconds());
    known = !hello;
    if (hello) outgoing.push_back(*hello);
    return true;
  }

  // OK, or why the session ends with this message.
  absl::Status Take(v1::CoordinatorMessage message) {
    if (message.has_refused()) {
      const auto code = static_cast<absl::StatusCode>(message.refused().code());
      return MakeStatus(code == absl::StatusCode::kOk ? absl::StatusCode::kUnavailable : code,
                        message.refused().message());
    }
    if (message.has_regroup()) NotifyRegroup(message);
    absl::MutexLock lock(&mutex);
    if (incoming.size() >= kQueueBound) {
      return absl::AbortedError(absl::StrCat("the coordinator at ", options.coordinator, " sent ", kQueueBound,
                                             " messages that this worker has not taken"));
    }
    journal.Arrived(message, Clock::Real().MonotonicSeconds());
    if (message.has_complete()) completed = true;
    if (message.has_welcome()) TakeWelcome(message.welcome().config().restart());
    incoming.push_back(std::move(message));
    return absl::OkStatus();
  }

  void TakeWelcome(const v1::RestartConfig& restart) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const double timeout = restart.heartbeat_timeout_seconds();
    if (heartbeat_seconds == 0 && timeout > 0) {
      heartbeat_seconds = HeartbeatSeconds(timeout);
    }
    if (!options.reconnect_seconds && restart.form_timeout_seconds() > 0) {
      give_up_seconds = restart.form_timeout_seconds();
    }
    pause = kFirstPauseSeconds;
    broken_since = 0;
    if (std::exchange(known, true)) return;
    ZF_KILL_POINT("session/adopted");
    for (v1::WorkerMessage& message : journal.Rest()) outgoing.push_back(std::move(message));
    next_heartbeat = 0;
  }

  void NotifyRegroup(const v1::CoordinatorMessage& message) {
    std::function<void(uint64_t, absl::Status)> handler;
    {
      absl::MutexLock lock(&mutex);
      handler = on_regroup;
    }
    if (handler) handler(message.generation(), absl::AbortedError(message.regroup().reason()));
  }

  StreamEnd EndOfStream(const grpc::Status& end) {
    absl::MutexLock lock(&mutex);
    const bool crowded = !known && end.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;  // too many come at once
    known = false;  // until a coordinator answers, if one does
    if (completed) return {absl::UnavailableError("the run is complete and its session over"), false};
    const std::string& coordinator = options.coordinator;
    if (end.ok()) {
      return {absl::UnavailableError(absl::StrCat("the coordinator at ", coordinator, " ended the session")), false};
    }
    const bool refused = end.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
                         end.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
                         end.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
    const bool broke =
        end.error_code() == grpc::StatusCode::UNAVAILABLE || end.error_code() == grpc::StatusCode::CANCELLED || crowded;
    return {FromGrpc(end, refused ? absl::StrCat("the coordinator at ", coordinator, " refused this worker")
                                  : absl::StrCat("lost the coordinator at ", coordinator)),
            broke && !closing};
  }

  void NotifyLost(const absl::Status& reason) {
    std::function<void(absl::Status)> handler;
    {
      absl::MutexLock lock(&mutex);
      lost = reason;
      ended = true;
      if (completed) return;
      mutex.Await(absl::Condition(this, &Impl::CanNotify));
      if (closing) return;
      handler = std::move(on_lost);
    }
    handler(reason);
  }

  // --- A stream's writing thread: what is queued, and heartbeats when they are due.
  void WriteLoop() {
    while (std::optional<v1::WorkerMessage> message = NextToWrite()) {
      if (!stream->Write(*message)) break;
    }
    bool half_close = false;
    {
      absl::MutexLock lock(&mutex);
      half_close = closing && !stream_over;
    }
    if (half_close) stream->WritesDone();
  }

  // Waits for a message to write; nothing once the stream is over, or closing and all is written.
  std::optional<v1::WorkerMessage> NextToWrite() {
    for (;;) {
      std::function<v1::Heartbeat()> beat;
      {
        absl::MutexLock lock(&mutex);
        mutex.AwaitWithTimeout(absl::Condition(this, &Impl::WriterHasWork), UntilHeartbeat());
        if (stream_over) return std::nullopt;
        if (UntilHeartbeat() <= absl::ZeroDuration() && !closing) {
          beat = heartbeat;
          const double interval = heartbeat_seconds == 0 ? kDefaultHeartbeatSeconds : heartbeat_seconds;
          next_heartbeat = Clock::Real().MonotonicSeconds() + interval;
        } else if (!outgoing.empty()) {
          v1::WorkerMessage message = std::move(outgoing.front());
          outgoing.pop_front();
          return message;
        } else if (closing) {
          return std::nullopt;
        }
      }
      if (beat) return Stamped(beat());
    }
  }

  absl::Duration UntilHeartbeat() ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    if (!heartbeat || !known) return absl::InfiniteDuration();
    return absl::Seconds(next_heartbeat - Clock::Real().MonotonicSeconds());
  }

  v1::WorkerMessage Stamped(v1::Heartbeat beat) {
    v1::WorkerMessage message;
    *message.mutable_heartbeat() = std::move(beat);
    absl::MutexLock lock(&mutex);
    message.set_generation(generation);
    journal.Sent(message);
    return message;
  }

  void Start() {
    Open();
    session = std::thread([this] { Run(); });
  }

  void Close() {
    {
      absl::MutexLock lock(&mutex);
      closing = true;
      mutex.AwaitWithTimeout(absl::Condition(&ended), absl::Seconds(options.linger_seconds));
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
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  {
    absl::MutexLock lock(&impl->mutex);
    impl->heartbeat_seconds = options.heartbeat_interval_seconds;
    impl->give_up_seconds = options.reconnect_seconds.value_or(options.connect_timeout_seconds);
  }
  ZF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials, ChannelCredentialsFrom(options.tls));
  impl->channel = MakeChannel(address, credentials, options.tls.server_name);
  ZF_RETURN_IF_ERROR(WaitForCoordinator(impl->channel, options));
  impl->stub = v1::Coordinator::NewStub(impl->channel);
  impl->Start();
  return std::unique_ptr<SessionClient>(new SessionClient(std::move(impl)));
}

absl::Status SessionClient::Send(v1::WorkerMessage message) {
  absl::MutexLock lock(&impl_->mutex);
  if (!impl_->lost.ok()) return impl_->lost;
  if (impl_->outgoing.size() >= kQueueBound) {
    return absl::UnavailableError(absl::StrCat("the coordinator at ", impl_->options.coordinator, " has left ",
                                               kQueueBound, " messages of this worker unread"));
  }
  if (message.generation() == 0) message.set_generation(impl_->generation);
  impl_->journal.Sent(message);
  if (impl_->known) impl_->outgoing.push_back(std::move(message));
  return absl::OkStatus();
}

absl::StatusOr<v1::CoordinatorMessage> SessionClient::Receive(double timeout_seconds) {
  absl::MutexLock lock(&impl_->mutex);
  impl_->mutex.AwaitWithTimeout(absl::Condition(impl_.get(), &Impl::CanReceive), absl::Seconds(timeout_seconds));
  if (impl_->incoming.empty()) {
    if (!impl_->lost.ok()) return impl_->lost;
    return absl::DeadlineExceededError(
        absl::StrCat("the coordinator at ", impl_->options.coordinator, " sent nothing for ", timeout_seconds, " s"));
  }
  v1::CoordinatorMessage message = std::move(impl_->incoming.front());
  impl_->incoming.pop_front();
  impl_->generation = std::max(impl_->generation, message.generation());
  return message;
}

void SessionClient::StartHeartbeats(std::function<v1::Heartbeat()> heartbeat) {
  ZF_CHECK(heartbeat != nullptr);
  absl::MutexLock lock(&impl_->mutex);
  impl_->heartbeat = std::move(heartbeat);
  impl_->next_heartbeat = 0;
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
