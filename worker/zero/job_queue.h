// Jobs that run one after another, in the order in which they were posted, until one fails: on the queue's own thread,
// or within the calls that wait for them.
#ifndef ZEROFLEET_WORKER_ZERO_JOB_QUEUE_H_
#define ZEROFLEET_WORKER_ZERO_JOB_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace zerofleet::zero {

class JobQueue {
 public:
  using Job = std::function<absl::Status()>;

  explicit JobQueue(bool has_thread) : has_thread_(has_thread) {
    if (has_thread) thread_ = std::thread([this] { RunAll(); });
  }
  ~JobQueue() { Stop(); }
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  // Returns the job's number, for Await.
  int64_t Post(Job job) {
    absl::MutexLock lock(&mutex_);
    jobs_.push_back(std::move(job));
    return ++posted_;
  }

  // Returns when the job and all before it have run. Jobs after a failed one are skipped; the failure is then returned.
  // Cancelled if the queue stops before.
  absl::Status Await(int64_t job) {
    absl::MutexLock lock(&mutex_);
    while (!has_thread_ && !stopping_ && finished_ < job) RunNext();
    const auto is_over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return finished_ >= job || stopping_; };
    mutex_.Await(absl::Condition(&is_over));
    return finished_ >= job ? failure_ : absl::CancelledError("the queue has stopped");
  }

  // Waits for the job in progress; those that have not begun, and those posted afterwards, are dropped.
  void Stop() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void RunAll() {
    absl::MutexLock lock(&mutex_);
    while (true) {
      mutex_.Await(absl::Condition(this, &JobQueue::HasWork));
      if (stopping_) return;
      RunNext();
    }
  }
  void RunNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    if (failure_.ok()) {
      mutex_.Unlock();
      const absl::Status status = job();
      mutex_.Lock();
      failure_ = status;
    }
    ++finished_;
  }
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !jobs_.empty(); }

  const bool has_thread_;
  absl::Mutex mutex_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  int64_t posted_ ABSL_GUARDED_BY(mutex_) = 0, finished_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_JOB_QUEUE_H_
