// A fixed set of threads that share the blocks of one op.
//
// Ops cut their work into blocks that depend on the shape alone and write disjoint results, so which thread runs a
// block, and how many threads there are, never changes a bit of the result.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_THREAD_POOL_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace zerofleet::device {

class ThreadPool {
 public:
  // `threads` includes the calling thread, which works too: 1 starts no thread at all. If the system refuses to start
  // as many, threads() is less than `threads`.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs task(index, thread) for every index in [0, tasks), thread in [0, threads()), and returns when all are done.
  // Calls from several threads run one after the other; a task must not call Run.
  void Run(int64_t tasks, absl::FunctionRef<void(int64_t index, int thread)> task);

  // Runs body(begin, end) over [0, count) in blocks of `block` elements. A thread takes several neighbouring blocks at
  // a time if there are many.
  void RunBlocks(int64_t count, int64_t block, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

 private:
  using Task = absl::FunctionRef<void(int64_t, int)>;

  void WorkerLoop(int thread);
  void Drain(const Task& task, int64_t tasks, int thread);

  absl::Mutex run_mutex_;  // one Run at a time
  std::atomic<int64_t> next_{0};

  absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(run_mutex_);
  const Task* task_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int64_t tasks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  int busy_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::CondVar start_, done_;

  std::vector<std::thread> workers_;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_THREAD_POOL_H_
