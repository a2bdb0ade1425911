// See thread_pool.h. A round wakes every worker once; blocks are then claimed from one counter.
#include "worker/device/cpu/thread_pool.h"

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/units.h"

namespace zerofleet::device {
namespace {

// Into how many turns RunBlocks divides a thread's part: few, since a core reads neighbouring blocks faster, and enough
// to share the work evenly.
constexpr int64_t kTurns = 8;

}  // namespace

ThreadPool::ThreadPool(int threads) {
  ZF_CHECK(threads >= 1);
  workers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { WorkerLoop(thread); });
  } catch (const std::system_error&) {
    // There is a limit on processes or memory: the pool has fewer threads.
  }
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    start_.SignalAll();
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t tasks, absl::FunctionRef<void(int64_t, int)> task) {
  if (tasks <= 0) return;
  absl::MutexLock run_lock(&run_mutex_);
  next_.store(0, std::memory_order_relaxed);
  if (workers_.empty() || tasks == 1) {
    Drain(task, tasks, 0);
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    task_ = &task;
    tasks_ = tasks;
    ++round_;
    busy_ = static_cast<int>(workers_.size());
    start_.SignalAll();
  }
  Drain(task, tasks, 0);
  absl::MutexLock lock(&mutex_);
  while (busy_ > 0) done_.Wait(&mutex_);
  task_ = nullptr;
}

void ThreadPool::RunBlocks(int64_t count, int64_t block, absl::FunctionRef<void(int64_t, int64_t)> body) {
  const int64_t blocks = CeilDivide(count, block), turn = std::max<int64_t>(1, blocks / (threads() * kTurns));
  Run(CeilDivide(blocks, turn), [&](int64_t index, int) {
    for (int64_t at = index * turn; at < std::min(blocks, (index + 1) * turn); ++at) {
      body(at * block, std::min(count, (at + 1) * block));
    }
  });
}

void ThreadPool::Drain(const Task& task, int64_t tasks, int thread) {
  for (;;) {
    const int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= tasks) return;
    task(index, thread);
  }
}

void ThreadPool::WorkerLoop(int thread) {
  uint64_t seen_round = 0;
  for (;;) {
    const Task* task;
    int64_t tasks;
    {
      absl::MutexLock lock(&mutex_);
      while (!stopping_ && round_ == seen_round) start_.Wait(&mutex_);
      if (stopping_) return;
      seen_round = round_;
      task = task_;
      tasks = tasks_;
    }
    Drain(*task, tasks, thread);
    absl::MutexLock lock(&mutex_);
    if (--busy_ == 0) done_.Signal();
  }
}

}  // namespace zerofleet::device
