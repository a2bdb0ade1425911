// A slot per worker, looked at whenever a child ends; see local_workers.h.
#include "cli/launcher/local_workers.h"

#include <signal.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/launcher/child_process.h"
#include "cli/launcher/local_fleet.h"

namespace zerofleet::cli {
namespace {

constexpr double kLookSeconds = 0.2;
// A restarted coordinator takes a moment to answer; one that does not answer within this time is assumed to have ended
// with its run.
constexpr double kAskSeconds = 10;

class LocalWorkers {
 public:
  LocalWorkers(const LocalWorkersOptions& options, const StopSignals& signals) : options_(options), signals_(signals) {}

  absl::StatusOr<int> Run() {
    slots_.resize(options_.workers);
    for (int number = 0; number < options_.workers; ++number) ZF_RETURN_IF_ERROR(Start(number));
    while (!std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.settled; })) {
      HandleSignal(signals_.Wait(kLookSeconds));
      for (int number = 0; number < options_.workers; ++number) LookAt(number);
    }
    if (killed_ || (stop_signal_ != 0 && failure_.ok())) return StopExitCode(stop_signal_);
    ZF_RETURN_IF_ERROR(failure_);
    return 0;
  }

 private:
  struct Slot {
    std::unique_ptr<ChildProcess> child;
    int restarts = 0;
    std::optional<double> asking_since;  // monotonic seconds
    bool settled = false;
  };

  absl::Status Start(int number) {
    ZF_ASSIGN_OR_RETURN(slots_[number].child,
                        ChildProcess::Start(absl::StrCat("worker ", number), options_.arguments(number),
                                            /*log_path=*/"", options_.file, options_.command));
    return absl::OkStatus();
  }

  void LookAt(int number) {
    Slot& slot = slots_[number];
    if (slot.settled || !slot.child->HasEnded()) return;
    const int signal = slot.child->signal(), code = slot.child->exit_code();
    switch (JudgeWorkerEnd(signal, code, stop_signal_ != 0)) {
      case WorkerEnd::kDone: return Settle(number, code != 0 && code != StopExitCode(stop_signal_));
      case WorkerEnd::kFailed: return Settle(number, /*failed=*/true);
      case WorkerEnd::kStartAgain: return StartAgain(number);
      case WorkerEnd::kAsk: break;
    }
    const double now = options_.clock->MonotonicSeconds();
    if (!slot.asking_since) slot.asking_since = now;
    if (options_.run_goes_on()) return StartAgain(number);
    if (now - *slot.asking_since >= kAskSeconds) Settle(number, /*failed=*/true);
  }

  void StartAgain(int number) {
    Slot& slot = slots_[number];
    slot.asking_since.reset();
    if (slot.restarts >= options_.max_restarts) return Settle(number, /*failed=*/true);
    ++slot.restarts;
    const std::string ended = EndText(number);
    const absl::Status started = Start(number);
    options_.note(absl::StrCat(ended, "; ",
                               started.ok() ? absl::StrCat("started again as pid ", slot.child->pid(), ", ",
                                                           slot.restarts, " of ", options_.max_restarts)
                                            : std::string(started.message())));
    if (!started.ok()) Settle(number, /*failed=*/true);
  }

  void Settle(int number, bool failed) {
    Slot& slot = slots_[number];
    slot.settled = true;
    if (!failed || !failure_.ok()) return;
    const std::string after =
        slot.restarts == 0 ? "" : absl::StrCat(", after it had been started again ", slot.restarts, " times");
    failure_ = slot.child->signal() != 0 ? absl::UnavailableError(absl::StrCat(EndText(number), after))
                                         : StatusOfExit(slot.child->exit_code(), absl::StrCat(EndText(number), after));
  }

  std::string EndText(int number) const {
    const ChildProcess& child = *slots_[number].child;
    return absl::StrCat("worker ", number, " (pid ", child.pid(), ")",
                        child.signal() != 0 ? absl::StrCat(" was killed by ", SignalName(child.signal()))
                                            : absl::StrCat(" ended with exit code ", child.exit_code()));
  }

  void HandleSignal(int signal) {
    if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP) return;
    if (stop_signal_ != 0 && signal == SIGHUP) return;  // a closing terminal may send several
    killed_ = stop_signal_ != 0;
    if (stop_signal_ == 0) stop_signal_ = signal;
    for (const Slot& slot : slots_) {
      if (killed_) {
        slot.child->Kill();
      } else {
        slot.child->Stop(signal == SIGINT ? SIGINT : SIGTERM);
      }
    }
  }

  const LocalWorkersOptions& options_;
  const StopSignals& signals_;
  std::vector<Slot> slots_;
  absl::Status failure_;  // of the first worker that failed
  int stop_signal_ = 0;
  bool killed_ = false;
};

}  // namespace

WorkerEnd JudgeWorkerEnd(int signal, int exit_code, bool stopping) {
  if (stopping || (signal == 0 && exit_code == 0)) return WorkerEnd::kDone;
  if (signal != 0) return WorkerEnd::kStartAgain;
  return exit_code == 2 || exit_code == 3 ? WorkerEnd::kFailed : WorkerEnd::kAsk;
}

absl::StatusOr<int> RunLocalWorkers(const LocalWorkersOptions& options, const StopSignals& signals) {
  return LocalWorkers(options, signals).Run();
}

}  // namespace zerofleet::cli
