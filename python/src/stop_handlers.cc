// sigaction and tgkill; see stop_handlers.h.
#include "stop_handlers.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <iterator>

namespace zerofleet::python {
namespace {

std::atomic<pid_t> command_line_thread = 0;

pid_t ThisThread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

void PassOn(int number) {
  const int error = errno;
  const pid_t thread = command_line_thread;
  if (thread == ThisThread() || syscall(SYS_tgkill, getpid(), thread, number) != 0) {
    signal(number, SIG_DFL);
    raise(number);  // takes effect once this handler has returned
  }
  errno = error;
}

}  // namespace

StopHandlers::StopHandlers(bool hangup_ignored) {
  pthread_sigmask(SIG_BLOCK, nullptr, &mask_);
  command_line_thread = ThisThread();
  struct sigaction action = {};
  action.sa_handler = PassOn;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], nullptr, &before_[i]);
  for (int i = 0; i < kStopping; ++i) sigaction(kSignals[i], &action, nullptr);
  if (hangup_ignored) signal(SIGHUP, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // so that exceeding a limit on file sizes is a write error, with a message
}

StopHandlers::~StopHandlers() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

}  // namespace zerofleet::python
