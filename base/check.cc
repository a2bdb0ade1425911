// The end of a process whose own invariant is broken; see check.h.
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace zerofleet {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace zerofleet
