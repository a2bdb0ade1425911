// Starting, collecting and judging the children; see local_fleet.h.
#include "cli/launcher/local_fleet.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/spare_file.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/config/config_text.h"
#include "cli/launcher/stop_signals.h"
#include "services/security/token.h"
#include "worker/checkpoint/catalog.h"

namespace zerofleet::cli {
namespace {

constexpr double kUsualStartSeconds = 30;
constexpr double kStatusSeconds = 2;
constexpr double kNoticeSeconds = 1;  // time for the coordinator to notice that a worker has ended
constexpr int kFleetLostExitCode = 4;
constexpr char kListening[] = "listening on ";
constexpr int64_t kMostLogBytes = 8 << 20;

// Children are quiet, since the launcher shows the progress, and authenticate with its token.
void AddCommon(std::vector<std::string>& arguments) {
  arguments.insert(arguments.end(), {"--quiet", "--token-file", InheritedFile::kPath});
}

// A fleet on one machine communicates only over loopback and shared memory: nobody outside can reach its ports.
constexpr char kLoopback[] = "127.0.0.1";
constexpr char kLoopbackInterface[] = "lo";

absl::StatusOr<int64_t> NewestCommittedStep(const v1::Config& config) {
  ZF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, checkpoint::ListCommittedSteps(config.checkpoint().dir()));
  return steps.empty() ? -1 : steps.back();
}

void AddMetrics(int port, std::vector<std::string>& arguments) {
  if (port == 0) return;
  arguments.insert(arguments.end(), {"--metrics-port", absl::StrCat(port), "--metrics-listen", kLoopback});
}

// A hint at the limit on address space: libraries that cannot get more memory may end the process with a signal,
// without a word about a limit. Empty for other signals, or without a limit.
std::string AddressLimitText(int signal) {
  rlimit limit;
  const bool may_be = signal == SIGABRT || signal == SIGSEGV || signal == SIGBUS;
  if (!may_be || getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return absl::StrCat("; a process may take ", HumanBytes(static_cast<int64_t>(limit.rlim_cur)),
                      " of addresses here, which may be too little (ulimit -v)");
}

// A child that was sent a signal to stop has stopped the run in an orderly way; the run's events show the outcome.
bool IsOrderly(int exit_code) { return exit_code == 0 || exit_code == 130 || exit_code == 143; }

}  // namespace

int ThreadsPerWorker(int workers) {
  cpu_set_t set;
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, cores / workers);
}

absl::Status StatusOfExit(int exit_code, const std::string& message) {
  switch (exit_code) {
    case 2: return absl::InvalidArgumentError(message);
    case 3: return absl::DataLossError(message);
    case 130:
    case 143: return absl::CancelledError(message);
    case 1: return absl::InternalError(message);
    default: return absl::UnavailableError(message);
  }
}

double CoordinatorStartSeconds(const v1::Config& config) {
  const double stall = config.checkpoint().stall_timeout_seconds();
  return kUsualStartSeconds + (stall > 0 ? stall + config.restart().form_timeout_seconds() : 0);
}

absl::StatusOr<std::unique_ptr<LocalFleet>> LocalFleet::Start(const LocalFleetOptions& options,
                                                              const RunDirectory& directory) {
  std::unique_ptr<LocalFleet> fleet(new LocalFleet(options, directory));
  ZF_RETURN_IF_ERROR(WriteFileKeepingRoom(directory.config_path(), TextOf(options.config)));
  const std::string token = services::MakeToken();
  ZF_ASSIGN_OR_RETURN(fleet->token_file_, InheritedFile::Create(token));
  ZF_RETURN_IF_ERROR(fleet->StartCoordinator());
  ZF_ASSIGN_OR_RETURN(fleet->client_, services::OperatorClient::Create(fleet->address_, {}, token));
  const int workers = options.config.parallel().workers() + options.config.restart().spares();
  for (int number = 0; number < workers; ++number) {
    ZF_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> child, fleet->StartWorker(number));
    fleet->titles_.push_back(absl::StrCat("worker ", number, " (pid ", child->pid(), ")"));
    fleet->children_.push_back(std::move(child));
  }
  return fleet;
}

absl::StatusOr<std::unique_ptr<ChildProcess>> LocalFleet::LaunchCoordinator(const std::string& listen,
                                                                            const std::string& resume) {
  std::vector<std::string> arguments = {"coordinator",
                                        "--config",
                                        directory_.config_path(),
                                        "--listen",
                                        listen,
                                        "--state-dir",
                                        directory_.state_dir(),
                                        "--resume",
                                        resume,
                                        "--watched",
                                        "--log-level",
                                        "info"};
  AddCommon(arguments);
  arguments.insert(arguments.end(), {"--run-name", options_.run_name});
  AddMetrics(options_.metrics_port, arguments);
  return ChildProcess::Start("coordinator", arguments, directory_.log_path("coordinator"), token_file_.get(),
                             options_.command);
}

absl::Status LocalFleet::StartCoordinator() {
  ZF_ASSIGN_OR_RETURN(newest_step_, NewestCommittedStep(options_.config));
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> child,
                      LaunchCoordinator(absl::StrCat(kLoopback, ":0"), options_.resume));
  titles_.push_back(absl::StrCat("coordinator (pid ", child->pid(), ")"));
  children_.push_back(std::move(child));
  const absl::StatusOr<std::string> line = children_[0]->ReadLine(CoordinatorStartSeconds(options_.config));
  if (!line.ok()) return EarlyEnd(line.status());
  address_ = std::string(absl::StripPrefix(*line, kListening));
  return absl::OkStatus();
}

bool LocalFleet::CoordinatorRuns() const { return !children_[0]->HasEnded(); }

bool LocalFleet::CoordinatorWasKilled() const { return children_[0]->signal() != 0 && !children_[0]->killed_by_us(); }

absl::Status LocalFleet::RestartCoordinator() {
  ZF_ASSIGN_OR_RETURN(const int64_t newest_step, NewestCommittedStep(options_.config));
  const bool committed = newest_step > newest_step_;
  ZF_ASSIGN_OR_RETURN(children_[0], LaunchCoordinator(address_, committed ? "auto" : options_.resume));
  titles_[0] = absl::StrCat("coordinator (pid ", children_[0]->pid(), ")");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ChildProcess>> LocalFleet::StartWorker(int number) {
  const std::string name = absl::StrCat("worker-", number);
  std::vector<std::string> arguments = {"worker",
                                        "--coordinator",
                                        address_,
                                        "--device",
                                        options_.config.device(),
                                        "--threads",
                                        absl::StrCat(ThreadsPerWorker(options_.config.parallel().workers())),
                                        "--local-rank",
                                        absl::StrCat(number),
                                        "--interface",
                                        kLoopbackInterface,
                                        "--log-level",
                                        "info"};
  AddCommon(arguments);
  AddMetrics(options_.metrics_port == 0 ? 0 : options_.metrics_port + 1 + number, arguments);
  if (!options_.trace_steps.empty()) {
    arguments.insert(arguments.end(),
                     {"--trace", directory_.trace_path(number), "--trace-steps", options_.trace_steps});
  }
  return ChildProcess::Start(name, arguments, directory_.log_path(name), token_file_.get(), options_.command);
}

absl::Status LocalFleet::ReplaceWorker(int64_t pid, double now) {
  for (size_t i = 1; i < children_.size(); ++i) {
    if (children_[i]->pid() != pid) continue;
    children_[i]->End();  // frees its port, and makes sure that it writes nothing more
    return StartAgain(i, now);
  }
  return absl::NotFoundError(absl::StrCat("no worker of this fleet has process id ", pid));
}

absl::Status LocalFleet::StartAgain(size_t child, double now) {
  const int number = static_cast<int>(child) - 1;
  absl::StatusOr<std::unique_ptr<ChildProcess>> started = StartWorker(number);
  if (!started.ok()) {
    if (!starts_[child].Failed(now, options_.config.restart().form_timeout_seconds())) starts_.erase(child);
    return started.status();
  }
  starts_.erase(child);
  given_up_.erase(child);
  children_[child] = *std::move(started);
  titles_[child] = absl::StrCat("worker ", number, " (pid ", children_[child]->pid(), ")");
  return absl::OkStatus();
}

std::vector<std::string> LocalFleet::RetryStarts(double now) {
  std::vector<std::string> lines;
  std::vector<size_t> due;
  for (const auto& [child, retry] : starts_) {
    if (retry.Due(now)) due.push_back(child);
  }
  for (const size_t child : due) {
    const absl::Status started = StartAgain(child, now);
    if (started.ok()) lines.push_back(absl::StrCat(titles_[child], " was started"));
    if (!started.ok() && !starts_.contains(child)) {
      lines.push_back(absl::StrCat("no worker was started in ", options_.config.restart().form_timeout_seconds(),
                                   " s (restart.form_timeout_seconds): ", started.message()));
    }
  }
  return lines;
}

std::string LocalFleet::TakeLogNote() {
  std::string note;
  for (const auto& child : children_) {
    if (!child->log_note().empty()) note = child->log_note();
  }
  return std::exchange(log_note_, note) == note ? "" : note;
}

// The coordinator's own message, if it ended with one.
absl::Status LocalFleet::EarlyEnd(const absl::Status& status) {
  ChildProcess& child = *children_[0];
  for (int i = 0; i < 100 && !child.HasEnded() && absl::IsUnavailable(status); ++i)
    absl::SleepFor(absl::Milliseconds(20));
  const std::string line = child.ErrorLine();
  if (child.HasEnded() && child.exit_code() != 0 && !line.empty()) return StatusOfExit(child.exit_code(), line);
  return options_.keeps_logs ? absl::Status(status.code(), absl::StrCat(status.message(), child.LogText())) : status;
}

std::vector<std::string> LocalFleet::ReplaceUnknownWorkers(double now) {
  std::vector<std::string> lines;
  for (size_t i = 1; i < children_.size(); ++i) {
    if (!children_[i]->HasEnded() || starts_.contains(i) || given_up_.contains(i)) continue;
    const int64_t pid = children_[i]->pid();
    const int code = children_[i]->exit_code(), signal = children_[i]->signal();
    if (signal == 0 && IsOrderly(code)) continue;
    if (now - ended_.emplace(pid, now).first->second < kNoticeSeconds) continue;
    const std::string title = titles_[i];
    // As a rank it would have been lost by now, or have ended the run: it was a spare, or found no place.
    if (signal == 0 && code != kFleetLostExitCode) {
      given_up_.insert(i);
      const std::string line = children_[i]->ErrorLine();
      lines.push_back(absl::StrCat(title, " ended with exit code ", code, line.empty() ? "" : ": ", line,
                                   "; no other is started, and the run goes on without it"));
      continue;
    }
    const int64_t most = options_.config.restart().max_per_rank();
    if (most == 0) continue;
    if (unknown_replaced_ >= most) {
      given_up_.insert(i);
      lines.push_back(absl::StrCat(title, " ended before it had joined; no other is started: restart.max_per_rank, ",
                                   most, ", is spent"));
      continue;
    }
    ++unknown_replaced_;
    const absl::Status replaced = ReplaceWorker(pid, now);
    lines.push_back(
        absl::StrCat(title, " ended before it had joined; ",
                     replaced.ok() ? "another was started" : absl::StrCat("trying again: ", replaced.message())));
  }
  return lines;
}

bool LocalFleet::Reap() {
  bool all = true;
  for (const auto& child : children_) all = child->HasEnded() && all;
  return all;
}

bool LocalFleet::Any(const std::function<bool(const ChildProcess&)>& is) const {
  for (size_t i = 0; i < children_.size(); ++i) {
    if (!starts_.contains(i) && !given_up_.contains(i) && is(*children_[i])) return true;
  }
  return false;
}

bool LocalFleet::HasFailure() const {
  return HasFaultyChild() || Any([](const ChildProcess& child) { return child.signal() == SIGKILL; });
}

bool LocalFleet::HasFaultyChild() const {
  return Any([](const ChildProcess& child) {
    return child.signal() != 0 ? child.signal() != SIGKILL : !IsOrderly(child.exit_code());
  });
}

void LocalFleet::KillAll() {
  for (const auto& child : children_) child->Kill();
}

void LocalFleet::BoundLogs() {
  for (const auto& child : children_) child->BoundLog(kMostLogBytes);
}

void LocalFleet::LearnRanks() {
  const absl::StatusOr<v1::GetStatusResponse> status = client_->GetStatus(kStatusSeconds);
  if (!status.ok()) return;
  for (const v1::MemberStatus& member : status->members()) {
    for (size_t i = 1; i < children_.size(); ++i) {
      if (children_[i]->pid() != member.pid() || member.rank() < 0) continue;
      titles_[i] = absl::StrCat("rank ", member.rank(), " (worker ", i - 1, ", pid ", member.pid(), ")");
    }
  }
}

absl::Status LocalFleet::Diagnosis(const RunRecord& record, const absl::Status& watch) const {
  const std::string step = record.last_step ? absl::StrCat(" after step ", record.last_step->step()) : " before step 1";
  // Where ranks are replaced, the end of the last child is only part of the history; the coordinator's message has all
  // of it.
  const bool replaces = options_.config.restart().max_per_rank() > 0 && children_[0]->signal() == 0;
  for (size_t i = 0; i < children_.size() && !(replaces && record.failure); ++i) {
    if (children_[i]->signal() == 0 || children_[i]->killed_by_us()) continue;
    return absl::UnavailableError(absl::StrCat(titles_[i], " was killed by ", SignalName(children_[i]->signal()), step,
                                               AddressLimitText(children_[i]->signal()), record.CheckpointText(),
                                               options_.keeps_logs ? children_[i]->LogText() : ""));
  }
  if (record.failure) {
    return MakeStatus(static_cast<absl::StatusCode>(record.failure->code()), record.failure->message());
  }
  for (size_t i = 0; i < children_.size(); ++i) {
    const int exit_code = children_[i]->exit_code();
    if (exit_code == 0) continue;
    const std::string line = children_[i]->ErrorLine();
    const std::string end = absl::StrCat(" ended with exit code ", exit_code, step, record.CheckpointText());
    return StatusOfExit(exit_code, absl::StrCat(titles_[i], line.empty() ? end : absl::StrCat(": ", line)));
  }
  if (record.end) return absl::UnavailableError("a process was left after the run's end, and was killed");
  return absl::UnavailableError(
      absl::StrCat("the coordinator was lost", step, record.CheckpointText(), "; ", watch.message()));
}

}  // namespace zerofleet::cli
