// prctl and the check for the race with a parent that died before it; see parent_death.h.
#include "cli/launcher/parent_death.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace zerofleet::cli {

void DieWithParent() {
  const char* parent = std::getenv(kParentVariable);
  if (parent == nullptr) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (std::to_string(getppid()) != parent) _exit(1);
  unsetenv(kParentVariable);
}

}  // namespace zerofleet::cli
