// Signals of a process that belongs to Python, while the command line runs in it.
#ifndef ZEROFLEET_PYTHON_SRC_STOP_HANDLERS_H_
#define ZEROFLEET_PYTHON_SRC_STOP_HANDLERS_H_

#include <signal.h>

namespace zerofleet::python {

// From its construction to its destruction SIGINT, SIGTERM and SIGHUP go to the thread that has made it, which blocks
// them and asks for them (cli/launcher/stop_signals.h): Python's process has threads of other libraries, which block
// nothing, and the kernel would give a signal to any of them. One that arrives where the thread does not block it has
// its default effect. Afterwards signals have the effect, and the thread the mask, that they had before. One at a time.
class StopHandlers {
 public:
  // `hangup_ignored`: whether this process was started with SIGHUP ignored, as by nohup; libraries may have changed
  // that since.
  explicit StopHandlers(bool hangup_ignored);
  ~StopHandlers();
  StopHandlers(const StopHandlers&) = delete;
  StopHandlers& operator=(const StopHandlers&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};  // all that are changed meanwhile
  static constexpr int kStopping = 3;                                             // the first of them stop a run

  struct sigaction before_[sizeof kSignals / sizeof kSignals[0]];
  sigset_t mask_;
};

}  // namespace zerofleet::python

#endif  // ZEROFLEET_PYTHON_SRC_STOP_HANDLERS_H_
