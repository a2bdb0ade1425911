// In ascending order, since open takes the lowest free number; see standard_descriptors.h.
#include "cli/launcher/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace zerofleet::cli {

void SecureStandardDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    if (open("/dev/null", O_RDWR) != descriptor) _exit(1);  // nowhere to report why
  }
}

}  // namespace zerofleet::cli
