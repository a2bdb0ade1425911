// The executable: all roles in one file.
#include <signal.h>
#include <unistd.h>

#include <iostream>

#include "cli/command_line.h"
#include "cli/parent_death.h"
#include "cli/standard_descriptors.h"

int main(int argc, char** argv) {
  zerofleet::SecureStandardDescriptors();
  signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is then a write error, with a message
  zerofleet::DieWithParent();
  return zerofleet::RunCommandLine(argc, argv,
                                   {std::cout, std::cerr, zerofleet::Terminal::Of(STDOUT_FILENO, getenv),
                                    zerofleet::Terminal::Of(STDERR_FILENO, getenv)});
}
