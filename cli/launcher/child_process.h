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

// How to start another process of ours: the executable, and the words before the subcommand. Where Python has loaded us
// (python/), the executable is the interpreter.
struct ProcessCommand {
  std::string program = "/proc/self/exe";
  std::vector<std::string> words;
};

class ChildProcess {
 public:
  // Starts `command` with `arguments` in a process group of its own, with its stderr appended to `log_path` (empty: to
  // this process's stderr) and its stdout sent to a pipe. The child is killed when the calling thread dies, and by the
  // destructor. `name` is for messages. The child inherits `file`, if there is one. Creates the log's directory again
  // if it is gone; if `log_path` cannot be opened all the same, the log is kept in this process's memory (log_note says
  // why). On an error nothing was started, and another attempt may succeed.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(std::string name,
                                                             const std::vector<std::string>& arguments,
                                                             const std::string& log_path,
                                                             const InheritedFile* file = nullptr,
                                                             const ProcessCommand& command = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  // ", its log is PATH"; empty if the log is not a file that others can read.
  std::string LogText() const;
  // Why the log is kept in memory; empty if it is in a file.
  const std::string& log_note() const { return log_note_; }

  // The first line the process prints on stdout. Unavailable if it ends first, DeadlineExceeded if it takes longer.
  absl::StatusOr<std::string> ReadLine(double timeout_seconds);

  // Moves the contents of a log that is larger than `most_bytes` to LOG.1, replacing what was there. A line that is
  // written meanwhile may be lost.
  void BoundLog(int64_t most_bytes);

  // Collects the process if it has ended. True once it has.
  bool HasEnded();
  void Stop(int signal);  // sends it; the process ends in its own way
  void Kill();            // SIGKILL; its exit status then says nothing about it
  void End();             // Kill, and wait until it has ended
  bool killed_by_us() const { return killed_by_us_; }

  // Valid once the process has ended: the signal that killed it (0 if none), and its exit code.
  int signal() const;
  int exit_code() const;

  // The last error line ("zerofleet: ...") this process wrote to its log, without the prefix; empty if none.
  std::string ErrorLine() const;

 private:
  struct Log {
    int descriptor;
    std::string path;  // the path by which this process reads it
    std::string note;
  };
  static absl::StatusOr<Log> OpenLog(const std::string& name, const std::string& path);

  ChildProcess(std::string name, Log log, int64_t log_begin, int stdout_pipe, pid_t pid);

  const std::string name_, log_path_, log_note_;
  const int log_in_memory_;  // the log's descriptor if it is in memory, otherwise -1
  int64_t log_begin_;        // offset in bytes at which this process's part of the log begins
  const int stdout_pipe_;
  const pid_t pid_;
  std::optional<int> wait_status_;
  bool killed_by_us_ = false;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_CHILD_PROCESS_H_
