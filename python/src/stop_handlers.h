// Directs signals in a process that belongs to Python, while the command line runs in it.
#ifndef ZEROFLEET_PYTHON_SRC_STOP_HANDLERS_H_
#define ZEROFLEET_PYTHON_SRC_STOP_HANDLERS_H_

#include <signal.h>

namespace zerofleet::python {

// While it exists, SIGINT, SIGTERM and SIGHUP go to the thread that has constructed it, which blocks and polls them
// (cli/launcher/stop_signals.h): Python's process has threads of other libraries that block nothing, and the kernel
// would deliver a signal to any of them. A signal that arrives while the thread does not block it has its default
// effect. The destructor restores the signals' handlers and the thread's mask. Only one may exist at a time.
class StopHandlers {
 public:
  // `hangup_ignored`: whether this process was started with SIGHUP ignored, as by nohup; libraries may have changed
  // that since.
  explicit StopHandlers(bool hangup_ignored);
  ~StopHandlers();
  StopHandlers(const StopHandlers&) = delete;
  StopHandlers& operator=(const StopHandlers&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};  // all signals that are changed
  static constexpr int kStopping = 3;                                             // the first three stop a run

  struct sigaction before_[sizeof kSignals / sizeof kSignals[0]];
  sigset_t mask_;
};

}  // namespace zerofleet::python

#endif  // ZEROFLEET_PYTHON_SRC_STOP_HANDLERS_H_
