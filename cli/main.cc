// The executable: all roles in one file.
#include <signal.h>
#include <unistd.h>

#include <iostream>

#include "absl/synchronization/mutex.h"
#include "cli/commands/command_line.h"
#include "cli/launcher/parent_death.h"
#include "cli/launcher/standard_descriptors.h"
#include "cli/launcher/stop_signals.h"

int main(int argc, char** argv) {
  zerofleet::cli::ReleaseHangup();
  zerofleet::cli::SecureStandardDescriptors();
  // Debian's Abseil looks for deadlock cycles whenever a lock is taken, gRPC's included. Tests keep that check; a run
  // need not pay for it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  signal(SIGXFSZ, SIG_IGN);  // so that exceeding a limit on file sizes is a write error, with a message
  zerofleet::cli::DieWithParent();
  return zerofleet::cli::RunCommandLine(argc, argv,
                                        {std::cout, std::cerr, zerofleet::cli::Terminal::Of(STDOUT_FILENO, getenv),
                                         zerofleet::cli::Terminal::Of(STDERR_FILENO, getenv)});
}
