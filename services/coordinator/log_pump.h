// A queue of log lines for a sink that may be slow (a disk, a terminal), written by a thread of its own, so that
// callers never wait. Lines that do not fit into the queue are counted, and the count is logged.
#ifndef ZEROFLEET_SERVICES_COORDINATOR_LOG_PUMP_H_
#define ZEROFLEET_SERVICES_COORDINATOR_LOG_PUMP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/common/logging.h"

namespace zerofleet::services {

class LogPump {
 public:
  using Write = std::function<void(LogLevel, const std::string&)>;

  // `write` is called from the pump's thread, one line at a time.
  explicit LogPump(Write write, size_t most_queued = 1024);
  ~LogPump();  // writes what is queued first
  LogPump(const LogPump&) = delete;
  LogPump& operator=(const LogPump&) = delete;

  // Any thread.
  void Push(LogLevel level, std::string line);

 private:
  struct Line {
    LogLevel level;
    std::string text;
  };

  void WriteUntilClosed();
  bool due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_ || !lines_.empty(); }

  const Write write_;
  const size_t most_queued_;
  absl::Mutex mutex_;
  std::deque<Line> lines_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;  // lines left out and not reported yet
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread writer_;  // last: it uses the others
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COORDINATOR_LOG_PUMP_H_
