// A swarm of sessions and the figures of one process; see coordinator_benches.h.
#include "bench/coordinator_benches.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/status.h"
#include "services/session/session_swarm.h"

namespace zerofleet::bench {
namespace {

// The text of a process's file in /proc, whose size is not known before it is read. Empty if there is none.
std::string ProcText(pid_t pid, const char* name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/", name));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Seconds of processor time that all threads of the process have used.
absl::StatusOr<double> ProcessorSeconds(pid_t pid) {
  const std::string text = ProcText(pid, "stat");
  // The name may contain spaces, so count from behind it: the first word is the state, the 12th and 13th are user and
  // system time.
  const std::vector<std::string> words =
      absl::StrSplit(text.substr(std::min(text.size(), text.rfind(')') + 1)), ' ', absl::SkipEmpty());
  int64_t user = 0, system = 0;
  if (words.size() < 13 || !absl::SimpleAtoi(words[11], &user) || !absl::SimpleAtoi(words[12], &system)) {
    return absl::InternalError(absl::StrCat("/proc/", pid, "/stat is not as expected"));
  }
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// The bytes in a row of the process's status, "VmRSS" or "VmHWM".
absl::StatusOr<int64_t> MemoryBytes(pid_t pid, const std::string& row) {
  const std::string text = ProcText(pid, "status");
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(": \t"), absl::SkipEmpty());
    int64_t kib = 0;
    if (words.size() >= 2 && words[0] == row && absl::SimpleAtoi(words[1], &kib)) return kib << 10;
  }
  return absl::InternalError(absl::StrCat("/proc/", pid, "/status has no ", row));
}

absl::Status CheckOptions(const CoordinatorBenchOptions& options) {
  const bool fits = options.members >= 1 && options.sessions_per_connection >= 1 &&
                    options.sessions_per_connection <= 32 && options.peers >= 0 && options.peers <= 64 &&
                    options.losses >= 0 && options.losses <= options.members && options.heartbeats_per_second > 0 &&
                    options.heartbeat_seconds > 0;
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a coordinator bench needs at least one member, 1 to 32 sessions per connection, 0 to 64 peers, at most as many "
      "losses as members, and a positive rate and duration of heartbeats");
}

// Loses one member after another, and adds a new spare for each.
absl::Status Lose(const CoordinatorBenchOptions& options, services::SessionSwarm& swarm,
                  services::SessionSwarm::View view, CoordinatorRate& rate) {
  std::vector<double> seconds;
  for (int loss = 0; loss < options.losses; ++loss) {
    const double began = Clock::Real().MonotonicSeconds();
    ZF_RETURN_IF_ERROR(swarm.Break(loss));  // another member each time: losing the same rank again and again ends a run
    ZF_ASSIGN_OR_RETURN(view, swarm.AwaitView(options.members, view.generation));
    seconds.push_back(view.assigned - began);
    ZF_RETURN_IF_ERROR(swarm.Add());
  }
  if (seconds.empty()) return absl::OkStatus();
  std::sort(seconds.begin(), seconds.end());
  rate.reform_seconds = seconds[seconds.size() / 2];
  rate.reform_most_seconds = seconds.back();
  return absl::OkStatus();
}

absl::Status Beat(const CoordinatorBenchOptions& options, services::SessionSwarm& swarm, CoordinatorRate& rate) {
  const double began = Clock::Real().MonotonicSeconds();
  ZF_ASSIGN_OR_RETURN(const double before, ProcessorSeconds(options.pid));
  rate.heartbeats_per_second = swarm.Beat(options.heartbeats_per_second, options.heartbeat_seconds);
  ZF_ASSIGN_OR_RETURN(const double after, ProcessorSeconds(options.pid));
  rate.heartbeat_cores = (after - before) / (Clock::Real().MonotonicSeconds() - began);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CoordinatorRate> BenchCoordinator(const CoordinatorBenchOptions& options) {
  ZF_RETURN_IF_ERROR(CheckOptions(options));
  const int sessions = options.members + 1, each = options.sessions_per_connection;
  CoordinatorRate rate{.members = options.members, .connections = (sessions + each - 1) / each};
  const double began = Clock::Real().MonotonicSeconds();
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<services::SessionSwarm> swarm,
                      services::SessionSwarm::Start({.coordinator = options.coordinator,
                                                     .sessions = sessions,
                                                     .sessions_per_connection = each,
                                                     .peers = options.peers}));
  ZF_ASSIGN_OR_RETURN(const services::SessionSwarm::View view, swarm->AwaitView(options.members, 0));
  rate.view_seconds = view.assigned - began;
  rate.start_seconds = view.started - began;
  ZF_ASSIGN_OR_RETURN(rate.formed_bytes, MemoryBytes(options.pid, "VmRSS"));
  ZF_RETURN_IF_ERROR(Beat(options, *swarm, rate));
  ZF_RETURN_IF_ERROR(Lose(options, *swarm, view, rate));
  ZF_ASSIGN_OR_RETURN(rate.last_bytes, MemoryBytes(options.pid, "VmRSS"));
  ZF_ASSIGN_OR_RETURN(rate.peak_bytes, MemoryBytes(options.pid, "VmHWM"));
  ZF_RETURN_IF_ERROR(swarm->Finish());
  return rate;
}

}  // namespace zerofleet::bench
