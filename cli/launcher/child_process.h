// A process of this executable, started and watched by the launcher.
#ifndef ZEROFLEET_CLI_LAUNCHER_CHILD_PROCESS_H_
#define ZEROFLEET_CLI_LAUNCHER_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/launcher/inherited_file.h"

namespace zerofleet::cli {

class ChildProcess {
 public:
  // Starts this executable with `arguments`, in a process group of its own, its stderr appended to `log_path`, its
  // stdout to a pipe. It is killed when the calling thread dies, and by the destructor. `name` is for messages. The
  // child inherits `file`, if there is one.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(std::string name,
                                                             const std::vector<std::string>& arguments,
                                                             const std::string& log_path,
                                                             const InheritedFile* file = nullptr);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  const std::string& log_path() const { return log_path_; }

  // The first line the process prints on stdout. Unavailable if it ends first, DeadlineExceeded if it takes longer.
  absl::StatusOr<std::string> ReadLine(double timeout_seconds);

  // Keeps the log below twice `most_bytes`: its contents move to LOG.1, replacing what was there. A line that is
  // written meanwhile may be lost.
  void BoundLog(int64_t most_bytes);

  // Collects the process if it has ended. True once it has.
  bool HasEnded();
  void Kill();  // SIGKILL; its exit status then says nothing about it
  void End();   // Kill, and wait until it has ended
  bool killed_by_us() const { return killed_by_us_; }

  // Once it has ended: the signal that killed it, 0 if none; its exit code.
  int signal() const;
  int exit_code() const;

  // The last error line ("zerofleet: ...") this process wrote to its log, without the prefix; empty if none.
  std::string ErrorLine() const;

 private:
  ChildProcess(std::string name, std::string log_path, int64_t log_begin, int stdout_pipe, pid_t pid);

  const std::string name_, log_path_;
  int64_t log_begin_;  // of this process's part, bytes
  const int stdout_pipe_;
  const pid_t pid_;
  std::optional<int> wait_status_;
  bool killed_by_us_ = false;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_CHILD_PROCESS_H_
