// Reactors of the coordinator's calls; see coordinator_service.h. A reactor owns itself and ends in OnDone.
#include "services/coordinator/coordinator_service.h"

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/common/address.h"
#include "services/common/message_limits.h"
#include "services/common/trace.h"
#include "services/rpc/grpc_common.h"

namespace zerofleet::services {
namespace {

// A worker that reads nothing is lost, not waited for. Its queue is bounded in number and in bytes, so that thousands
// of such workers cannot fill the coordinator's memory; the largest answer to PeersWanted fits.
constexpr size_t kMaxQueuedMessages = 1024;
constexpr size_t kMaxQueuedBytes = 8 << 20;

constexpr size_t kMostReason = 256;  // bytes of an operator's reason to stop

// Calls that are refused before anything is read from them.
class RefusedSession : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage> {
 public:
  explicit RefusedSession(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};
class RefusedWatch : public grpc::ServerWriteReactor<v1::Event> {
 public:
  explicit RefusedWatch(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

// One worker's session. Lock order: the loop's mutexes, then this object's.
class SessionReactor : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>, public SessionSink {
 public:
  SessionReactor(CoordinatorLoop& loop, grpc::CallbackServerContext& context)
      : loop_(loop), context_(context), peer_address_(AddressOfPeer(context.peer())) {
    const absl::StatusOr<coordinator::MemberId> member = loop.OpenSession(this);
    if (member.ok()) {
      member_ = *member;
      const auto trace = context.client_metadata().find(kTraceparent);
      if (trace != context.client_metadata().end()) {
        loop.NoteTrace(TraceIdIn({trace->second.data(), trace->second.size()}));
      }
      StartRead(&received_);
    } else {
      Refuse(member.status());
    }
  }

  void Send(std::shared_ptr<const v1::CoordinatorMessage> message) override {
    absl::MutexLock lock(&mutex_);
    if (closing_) return;
    const size_t bytes = message->ByteSizeLong();
    const bool full = queue_.size() >= kMaxQueuedMessages || queued_bytes_ + bytes > kMaxQueuedBytes;
    if (full && !queue_.empty()) return CutOff();
    queue_.push_back({std::move(message), bytes});
    queued_bytes_ += bytes;
    if (queue_.size() == 1) StartWrite(queue_.front().message.get());
  }

  void Close() override {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    if (queue_.empty()) FinishOnce(grpc::Status::OK);
  }

  void Refuse(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    FinishOnce(ToGrpc(status));
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      v1::WorkerMessage message = std::exchange(received_, {});
      const absl::Status admitted = AdmitMessage(message.ByteSizeLong(), message);
      if (admitted.ok()) {
        if (message.has_hello()) message.mutable_hello()->set_address(peer_address_);
        loop_.Receive(member_, std::move(message));
        return StartRead(&received_);
      }
      Refuse(admitted);  // first, since the loop will close the session, without this reason
      return loop_.SessionEnded(member_, std::string(admitted.message()));
    }
    loop_.SessionEnded(member_, IsCutOff() ? "it does not read its messages" : "its session ended");
    absl::MutexLock lock(&mutex_);
    reading_ended_ = true;
    // A worker that left early gets nothing more; one that has finished still waits for Complete.
    if (cancelled_) FinishOnce(grpc::Status::CANCELLED);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    queued_bytes_ -= queue_.front().bytes;
    queue_.pop_front();
    if (!ok) queue_.clear();
    if (!queue_.empty()) return StartWrite(queue_.front().message.get());
    if (closing_ || !ok) FinishOnce(grpc::Status::OK);
  }

  void OnCancel() override {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (reading_ended_) FinishOnce(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    loop_.ForgetSession(member_);
    delete this;
  }

 private:
  void FinishOnce(const grpc::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(finished_, true)) return;
    closing_ = true;
    Finish(status);
  }

  // Cancels at once: an orderly end would wait behind what the worker does not read.
  void CutOff() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    cut_off_ = true;
    FinishOnce(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the worker does not read its messages"));
    queue_.resize(1);  // the one that is being written
    context_.TryCancel();
  }
  bool IsCutOff() {
    absl::MutexLock lock(&mutex_);
    return cut_off_;
  }

  CoordinatorLoop& loop_;
  grpc::CallbackServerContext& context_;
  const std::string peer_address_;
  v1::WorkerMessage received_;

  absl::Mutex mutex_;
  struct Queued {
    std::shared_ptr<const v1::CoordinatorMessage> message;
    size_t bytes;
  };
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);  // the front is being written
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more is queued
  bool reading_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool cut_off_ ABSL_GUARDED_BY(mutex_) = false;
  // 0 until the loop knows the session; the loop may call this object as soon as it does.
  coordinator::MemberId member_ = 0;
};

// One watcher of the run's events.
class WatchReactor : public grpc::ServerWriteReactor<v1::Event>, public EventFollower {
 public:
  WatchReactor(EventLog& log, bool hold) : log_(log) {
    const absl::Status added = log_.Add(this, hold);
    if (!added.ok()) Finish(added);
  }

  void Write(SharedEvent event) override {
    writing_ = std::move(event);
    StartWrite(writing_.get());
  }
  void Finish(const absl::Status& status) override { grpc::ServerWriteReactor<v1::Event>::Finish(ToGrpc(status)); }
  void OnWriteDone(bool ok) override { log_.WriteDone(this, ok); }
  void OnCancel() override { log_.Leave(this); }
  void OnDone() override {
    log_.Remove(this);
    delete this;
  }

 private:
  EventLog& log_;
  SharedEvent writing_;
};

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace

absl::Status CoordinatorService::Admit(Role role, const grpc::CallbackServerContext& context) {
  absl::Status allowed = access_.Check(role, PeerOf(context));
  if (!allowed.ok()) refusals_.AddCall(AddressOfPeer(context.peer()), allowed);
  return allowed;
}

grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* CoordinatorService::Session(
    grpc::CallbackServerContext* context) {
  const absl::Status allowed = Admit(Role::kWorker, *context);
  if (!allowed.ok()) return new RefusedSession(allowed);
  return new SessionReactor(loop_, *context);
}

grpc::ServerUnaryReactor* CoordinatorService::GetStatus(grpc::CallbackServerContext* context,
                                                        const v1::GetStatusRequest* request,
                                                        v1::GetStatusResponse* response) {
  *response = loop_.GetStatus(*request);
  asked_unix_nanos_ = absl::ToUnixNanos(absl::Now());
  return Answer(context, absl::OkStatus());
}

grpc::ServerWriteReactor<v1::Event>* CoordinatorService::Watch(grpc::CallbackServerContext* context,
                                                               const v1::WatchRequest* request) {
  const absl::Status allowed = Admit(Role::kOperator, *context);
  if (!allowed.ok()) return new RefusedWatch(allowed);
  return new WatchReactor(loop_.events(), request->hold());
}

grpc::ServerUnaryReactor* CoordinatorService::Stop(grpc::CallbackServerContext* context, const v1::StopRequest* request,
                                                   v1::StopResponse*) {
  const absl::Status allowed = Admit(Role::kOperator, *context);
  if (allowed.ok()) {
    loop_.Stop(request->reason().empty() ? "an operator asked" : PrintableText(request->reason(), kMostReason));
  }
  return Answer(context, allowed);
}

}  // namespace zerofleet::services
