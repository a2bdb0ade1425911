// The executable: all roles in one file.
#include <unistd.h>

#include <iostream>

#include "cli/command_line.h"
#include "cli/parent_death.h"

int main(int argc, char** argv) {
  zerofleet::DieWithParent();
  return zerofleet::RunCommandLine(argc, argv, {std::cout, std::cerr, isatty(STDERR_FILENO) == 1});
}
