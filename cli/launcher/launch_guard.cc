// A thread that waits for signals, and a trial of threads; see launch_guard.h.
#include "cli/launcher/launch_guard.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "base/units.h"

namespace zerofleet::cli {
namespace {

constexpr timespec kPoll = {0, 20'000'000};
constexpr int kFleetExitCode = 4;
constexpr rlim_t kFilesOfAServer = 65'536;
// Roughly the number that gRPC and UCX start in each process.
constexpr int kThreadsPerProcess = 16, kMostThreadsTried = 256;
// Measured: with a limit of 1.05 GiB the smallest worker dies in an allocation of some library, with 1.15 GiB it runs.
constexpr rlim_t kLeastAddresses = rlim_t{1} << 30;
// Measured with 2 workers, before a save: 32 files in a worker, 20 in the coordinator.
constexpr int kFilesPerProcess = 64, kFilesPerPeer = 8;

[[noreturn]] void LeaveNow(const std::string& what, int exit_code) {
  const std::string line = absl::StrCat("zerofleet: ", what, "\n");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  _exit(exit_code);
}

absl::Status CheckRoomForAddresses() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= kLeastAddresses) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a process may take ", HumanBytes(limit.rlim_cur), " of addresses, and each of the run's takes more than ",
      HumanBytes(kLeastAddresses), "; raise the limit on memory (ulimit -v)"));
}

}  // namespace

absl::Status CheckRoomForThreads(int threads) {
  absl::Notification end;
  std::vector<std::thread> started;
  absl::Status status;
  try {
    started.reserve(threads);
    for (int i = 0; i < threads; ++i) started.emplace_back([&end] { end.WaitForNotification(); });
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("only ", started.size(), " threads can be started, and the run needs room for ", threads, ": ",
                     error.code().message(), "; raise the limit on processes (ulimit -u) or on memory (ulimit -v)"));
  }
  end.Notify();
  for (std::thread& thread : started) thread.join();
  return status;
}

absl::Status MakeRoomForFiles(int files) {
  rlimit limit;
  const rlim_t needed = files;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return absl::OkStatus();
  if (limit.rlim_max >= needed) {
    limit.rlim_cur = needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("a process may have ", limit.rlim_max,
                                                   " files open, and each of the run's needs room for ", files,
                                                   "; raise the limit on open files (ulimit -n)"));
}

absl::Status MakeRoomForFleet(int workers) {
  ZF_RETURN_IF_ERROR(CheckRoomForAddresses());
  ZF_RETURN_IF_ERROR(CheckRoomForThreads(std::min(kMostThreadsTried, kThreadsPerProcess * (2 + workers))));
  return MakeRoomForFiles(kFilesPerProcess + kFilesPerPeer * workers);
}

void MakeRoomForClients() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kFilesOfAServer) return;
  limit.rlim_cur = std::min(kFilesOfAServer, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

LaunchGuard::LaunchGuard(absl::Duration limit, const StopSignals& signals)
    : limit_(limit), signals_(signals), thread_([this] { Watch(); }) {}

LaunchGuard::~LaunchGuard() {
  done_.Notify();
  thread_.join();
}

void LaunchGuard::Watch() {
  const sigset_t set = signals_.Stopping();
  const absl::Time deadline = absl::Now() + limit_;
  while (!done_.HasBeenNotified()) {
    const int signal = sigtimedwait(&set, nullptr, &kPoll);
    if (signal > 0)
      LeaveNow(absl::StrCat("stopped by ", SignalName(signal), " before the run started"), StopExitCode(signal));
    if (absl::Now() > deadline) {
      LeaveNow(absl::StrCat("the fleet did not start in ", absl::FormatDuration(limit_), "; ending now"),
               kFleetExitCode);
    }
  }
}

}  // namespace zerofleet::cli
