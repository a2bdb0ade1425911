// posix_spawn, waitpid and the child's log; see child_process.h.
#include "cli/launcher/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/launcher/parent_death.h"

namespace zerofleet::cli {
namespace {

constexpr char kErrorPrefix[] = "zerofleet: ";

// This process's environment with the launcher's mark added.
std::vector<std::string> ChildEnvironment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  variables.push_back(absl::StrCat(kParentVariable, "=", getpid()));
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// No signal blocked or ignored: the child does not inherit the launcher's signal handling.
void SetAttributes(posix_spawnattr_t* attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigemptyset(&all);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGPIPE}) sigaddset(&all, signal);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setsigdefault(attributes, &all);
  posix_spawnattr_setpgroup(attributes, 0);
  posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(std::string name,
                                                                  const std::vector<std::string>& arguments,
                                                                  const std::string& log_path,
                                                                  const InheritedFile* file,
                                                                  const ProcessCommand& command) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no pipe for ", name, ": ", std::strerror(errno)));
  }
  absl::StatusOr<Log> log = OpenLog(name, log_path);
  if (!log.ok()) {
    for (const int end : out) close(end);
    return log.status();
  }
  const int64_t log_begin = lseek(log->descriptor, 0, SEEK_END);
  // An interpreter finds its own files by the path in argv[0].
  std::vector<std::string> texts = {command.words.empty() ? "zerofleet" : command.program},
                           environment = ChildEnvironment();
  texts.insert(texts.end(), command.words.begin(), command.words.end());
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, log->descriptor, STDERR_FILENO);
  // Must be last: by now any descriptor that has this number has been copied to its destination.
  if (file != nullptr) {
    posix_spawn_file_actions_adddup2(&actions, file->descriptor(), InheritedFile::kChildDescriptor);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  SetAttributes(&attributes);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, command.program.c_str(), &actions, &attributes, Pointers(texts).data(),
                                Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  if (log->note.empty() || error != 0) close(log->descriptor);
  if (error != 0) {
    close(out[0]);
    return absl::ResourceExhaustedError(absl::StrCat(name, " cannot be started: ", std::strerror(error)));
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(std::move(name), *std::move(log), log_begin, out[0], pid));
}

// Whoever removes the logs of a run in progress wants room, not the end of the run, so a missing directory is created
// again.
absl::StatusOr<ChildProcess::Log> ChildProcess::OpenLog(const std::string& name, const std::string& path) {
  constexpr int kAppend = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  if (path.empty()) return Log{fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0), "", ""};
  int log = open(path.c_str(), kAppend, 0644);
  if (log < 0 && errno == ENOENT && CreateDirectories(ParentOf(path)).ok()) log = open(path.c_str(), kAppend, 0644);
  if (log >= 0) return Log{log, path, ""};
  const std::string why = absl::StrCat(path, ": ", std::strerror(errno));
  log = memfd_create("log", MFD_CLOEXEC);
  if (log < 0 || fcntl(log, F_SETFL, O_APPEND) != 0) {
    if (log >= 0) close(log);
    return absl::ResourceExhaustedError(absl::StrCat("no log for ", name, ": ", why));
  }
  return Log{log, absl::StrCat("/proc/self/fd/", log), absl::StrCat(name, " has no log but in memory: ", why)};
}

ChildProcess::ChildProcess(std::string name, Log log, int64_t log_begin, int stdout_pipe, pid_t pid)
    : name_(std::move(name)),
      log_path_(std::move(log.path)),
      log_note_(std::move(log.note)),
      log_in_memory_(log_note_.empty() ? -1 : log.descriptor),
      log_begin_(log_begin),
      stdout_pipe_(stdout_pipe),
      pid_(pid) {}

ChildProcess::~ChildProcess() {
  End();
  close(stdout_pipe_);
  if (log_in_memory_ >= 0) close(log_in_memory_);
}

std::string ChildProcess::LogText() const {
  return log_in_memory_ >= 0 ? "" : absl::StrCat("; its log is ", log_path_);
}

void ChildProcess::End() {
  Kill();
  int status = 0;
  while (!wait_status_) {
    const pid_t ended = waitpid(pid_, &status, 0);
    if (ended == pid_ || errno != EINTR) wait_status_ = status;
  }
}

absl::StatusOr<std::string> ChildProcess::ReadLine(double timeout_seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
  std::string line;
  while (true) {
    const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0)
      return absl::DeadlineExceededError(absl::StrCat(name_, " did not start in ", timeout_seconds, " s"));
    pollfd waited = {stdout_pipe_, POLLIN, 0};
    if (poll(&waited, 1, static_cast<int>(left.count() * 1000) + 1) <= 0) continue;
    char letter = 0;
    const ssize_t count = read(stdout_pipe_, &letter, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return absl::UnavailableError(absl::StrCat(name_, " ended before it was ready"));
    if (letter == '\n') return line;
    line += letter;
  }
}

void ChildProcess::BoundLog(int64_t most_bytes) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(log_path_, error);
  if (error || static_cast<int64_t>(bytes) <= most_bytes) return;
  std::filesystem::copy_file(log_path_, log_path_ + ".1", std::filesystem::copy_options::overwrite_existing, error);
  // The child appends, so its next line goes to the beginning of the emptied file.
  if (truncate(log_path_.c_str(), 0) == 0) log_begin_ = 0;
}

bool ChildProcess::HasEnded() {
  if (wait_status_) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  wait_status_ = status;
  return true;
}

void ChildProcess::Kill() {
  if (HasEnded()) return;
  killed_by_us_ = true;
  kill(pid_, SIGKILL);
}

void ChildProcess::Stop(int signal) {
  if (!HasEnded()) kill(pid_, signal);
}

int ChildProcess::signal() const { return wait_status_ && WIFSIGNALED(*wait_status_) ? WTERMSIG(*wait_status_) : 0; }
int ChildProcess::exit_code() const {
  return wait_status_ && WIFEXITED(*wait_status_) ? WEXITSTATUS(*wait_status_) : 0;
}

std::string ChildProcess::ErrorLine() const {
  std::ifstream log(log_path_);
  log.seekg(log_begin_);
  std::string last;
  for (std::string line; std::getline(log, line);) {
    if (line.rfind(kErrorPrefix, 0) == 0) last = line.substr(sizeof(kErrorPrefix) - 1);
  }
  return last;
}

}  // namespace zerofleet::cli
