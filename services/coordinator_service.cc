// Reactors of the coordinator's calls; see coordinator_service.h. A reactor owns itself and ends in OnDone.
#include "services/coordinator_service.h"

#include <deque>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace zerofleet {
namespace {

// A worker that reads nothing is lost, not waited for.
constexpr size_t kMaxQueuedMessages = 1024;

// One worker's session. Lock order: the loop's, then this one's.
class SessionReactor : public grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>, public SessionSink {
 public:
  explicit SessionReactor(CoordinatorLoop& loop) : loop_(loop), member_(loop.OpenSession(this)) { StartRead(&received_); }

  void Send(v1::CoordinatorMessage message) override {
    absl::MutexLock lock(&mutex_);
    if (closing_) return;
    if (queue_.size() >= kMaxQueuedMessages) {
      closing_ = true;
      return FinishOnce(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the worker does not read its messages"));
    }
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) StartWrite(&queue_.front());
  }

  void Close() override {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    if (queue_.empty()) FinishOnce(grpc::Status::OK);
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      loop_.Receive(member_, std::exchange(received_, {}));
      return StartRead(&received_);
    }
    loop_.SessionEnded(member_, "its session ended");
    absl::MutexLock lock(&mutex_);
    reading_ended_ = true;
    // A worker that left early is owed nothing; one that has finished still waits for Complete.
    if (cancelled_) FinishOnce(grpc::Status::CANCELLED);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    queue_.pop_front();
    if (!ok) queue_.clear();
    if (!queue_.empty()) return StartWrite(&queue_.front());
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

  CoordinatorLoop& loop_;
  v1::WorkerMessage received_;

  absl::Mutex mutex_;
  std::deque<v1::CoordinatorMessage> queue_ ABSL_GUARDED_BY(mutex_);  // the front is being written
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;                      // nothing more is queued
  bool reading_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  const MemberId member_;  // last: the loop may call as soon as it knows the session
};

// One watcher of the run's events.
class WatchReactor : public grpc::ServerWriteReactor<v1::Event>, public EventFollower {
 public:
  explicit WatchReactor(EventLog& log) : log_(log) { log_.Add(this); }

  void Write(const v1::Event& event) override { StartWrite(&event); }
  void Finish() override { grpc::ServerWriteReactor<v1::Event>::Finish(grpc::Status::OK); }
  void OnWriteDone(bool ok) override { log_.WriteDone(this, ok); }
  void OnCancel() override { log_.Leave(this); }
  void OnDone() override {
    log_.Remove(this);
    delete this;
  }

 private:
  EventLog& log_;
};

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace

grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* CoordinatorService::Session(
    grpc::CallbackServerContext* context) {
  return new SessionReactor(loop_);
}

grpc::ServerUnaryReactor* CoordinatorService::GetStatus(grpc::CallbackServerContext* context,
                                                        const v1::GetStatusRequest* request,
                                                        v1::GetStatusResponse* response) {
  *response = loop_.GetStatus();
  return Answer(context);
}

grpc::ServerWriteReactor<v1::Event>* CoordinatorService::Watch(grpc::CallbackServerContext* context,
                                                               const v1::WatchRequest* request) {
  return new WatchReactor(loop_.events());
}

grpc::ServerUnaryReactor* CoordinatorService::Stop(grpc::CallbackServerContext* context,
                                                   const v1::StopRequest* request, v1::StopResponse* response) {
  loop_.Stop(request->reason().empty() ? "an operator asked" : request->reason());
  return Answer(context);
}

}  // namespace zerofleet
