// A thread that runs jobs one after another, in the order in which they were posted.
#ifndef ZEROFLEET_WORKER_ZERO_JOB_THREAD_H_
#define ZEROFLEET_WORKER_ZERO_JOB_THREAD_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace zerofleet::zero {

class JobThread {
 public:
  JobThread() : thread_([this] { Run(); }) {}
  // Waits for the job in progress; those that have not begun are dropped.
  ~JobThread() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  void Post(std::function<void()> job) {
    absl::MutexLock lock(&mutex_);
    jobs_.push_back(std::move(job));
  }

 private:
  void Run() {
    while (true) {
      std::function<void()> job;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(this, &JobThread::HasWork));
        if (stopping_) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      job();
    }
  }
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !jobs_.empty(); }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_JOB_THREAD_H_
