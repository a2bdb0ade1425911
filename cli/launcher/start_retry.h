// Retries the start of a process. What is lacking (descriptors, processes, memory) may be available again in a moment,
// and a failed attempt must not count as a lost process.
#ifndef ZEROFLEET_CLI_LAUNCHER_START_RETRY_H_
#define ZEROFLEET_CLI_LAUNCHER_START_RETRY_H_

namespace zerofleet::cli {

// When to try to start one process again. Times are monotonic seconds.
class StartRetry {
 public:
  static constexpr double kPauseSeconds = 1;

  // Whether an attempt should be made now.
  bool Due(double now) const { return now >= due_; }
  // To be called when nothing was started. Returns whether to try again: until `limit_seconds` after the first failure
  // in a row.
  bool Failed(double now, double limit_seconds);
  void Started() { *this = StartRetry(); }

  bool waiting() const { return due_ > 0; }

 private:
  double due_ = 0;  // 0: no attempt has failed since the last start
  double since_ = 0;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_START_RETRY_H_
