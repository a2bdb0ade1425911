// Descriptors of a process that was started with some of them closed.
#include "cli/launcher/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

// Runs in a separate process: closes the descriptors whose bits are set in `closed`, secures all three and opens a
// file. Exits with 0 if the file's descriptor is above 2.
void OpensAFileWithout(int closed) {
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    if (closed & (1 << descriptor)) close(descriptor);
  }
  SecureStandardDescriptors();
  const int file = open("/dev/null", O_RDONLY);
  bool all_open = true;
  for (int descriptor = 0; descriptor < 3; ++descriptor) all_open = all_open && fcntl(descriptor, F_GETFD) != -1;
  _exit(file > STDERR_FILENO && all_open ? 0 : 1);
}

TEST(StandardDescriptors, NoFileTakesTheirNumbers) {
  for (int closed = 0; closed < 8; ++closed) {
    EXPECT_EXIT(OpensAFileWithout(closed), ::testing::ExitedWithCode(0), "") << closed;
  }
}

}  // namespace
}  // namespace zerofleet::cli
