// A process that could not be started is tried again: what there is too little of (descriptors, processes, memory) may
// be there again in a moment, and an attempt that started nothing is no loss of what it would have started.
#ifndef ZEROFLEET_CLI_LAUNCHER_START_RETRY_H_
#define ZEROFLEET_CLI_LAUNCHER_START_RETRY_H_

namespace zerofleet::cli {

// When to try to start one process again. Times are monotonic seconds.
class StartRetry {
 public:
  static constexpr double kPauseSeconds = 1;

  // Whether an attempt should be made now.
  bool Due(double now) const { return now >= due_; }
  // Nothing was started. Whether it is to be tried again: for `limit_seconds` from the first failure in a row on.
  bool Failed(double now, double limit_seconds);
  void Started() { *this = StartRetry(); }

  bool waiting() const { return due_ > 0; }

 private:
  double due_ = 0;  // 0: no attempt has failed since the last start
  double since_ = 0;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_START_RETRY_H_
