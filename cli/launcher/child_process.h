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

// What a process of ours is started with: the executable, and the words before the subcommand. Not this executable
// where Python has loaded us (python/).
struct ProcessCommand {
  std::string program = "/proc/self/exe";
  std::vector<std::string> words;
};

class ChildProcess {
 public:
  // Starts `command` with `arguments`, in a process group of its own, its stderr appended to `log_path`
  // (empty: this process's own), its stdout to a pipe. It is killed when the calling thread dies, and by the
  // destructor. `name` is for messages. The child inherits `file`, if there is one. Where `log_path` cannot be opened
  // although its directory is made anew, the log is in this process's memory (log_note says why). On an error nothing
  // was started, and later it may be.
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
  // ", its log is PATH", or nothing if that is not a file that others can read.
  std::string LogText() const;
  // Why the log is in memory; empty if it is not.
  const std::string& log_note() const { return log_note_; }

  // The first line the process prints on stdout. Unavailable if it ends first, DeadlineExceeded if it takes longer.
  absl::StatusOr<std::string> ReadLine(double timeout_seconds);

  // Keeps the log below twice `most_bytes`: its contents move to LOG.1, replacing what was there. A line that is
  // written meanwhile may be lost.
  void BoundLog(int64_t most_bytes);

  // Collects the process if it has ended. True once it has.
  bool HasEnded();
  void Stop(int signal);  // sends it; the process ends in its own way
  void Kill();            // SIGKILL; its exit status then says nothing about it
  void End();             // Kill, and wait until it has ended
  bool killed_by_us() const { return killed_by_us_; }

  // Once it has ended: the signal that killed it, 0 if none; its exit code.
  int signal() const;
  int exit_code() const;

  // The last error line ("zerofleet: ...") this process wrote to its log, without the prefix; empty if none.
  std::string ErrorLine() const;

 private:
  struct Log {
    int descriptor;
    std::string path;  // by which this process reads it
    std::string note;
  };
  static absl::StatusOr<Log> OpenLog(const std::string& name, const std::string& path);

  ChildProcess(std::string name, Log log, int64_t log_begin, int stdout_pipe, pid_t pid);

  const std::string name_, log_path_, log_note_;
  const int log_in_memory_;  // its descriptor, or -1
  int64_t log_begin_;        // of this process's part, bytes
  const int stdout_pipe_;
  const pid_t pid_;
  std::optional<int> wait_status_;
  bool killed_by_us_ = false;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_CHILD_PROCESS_H_
