// What this executable is: version, revision, build id. Ranks of one run must agree on the build id.
#ifndef ZEROFLEET_SERVICES_COMMON_BUILD_INFO_H_
#define ZEROFLEET_SERVICES_COMMON_BUILD_INFO_H_

#include <string>

namespace zerofleet::services {

struct BuildInfo {
  std::string version;   // "0.2.0"
  std::string revision;  // the source tree's when it was configured; "unknown" outside a git checkout
  std::string build_id;  // the linker's digest of the executable (its GNU build-id note), in hexadecimal
  bool cuda = false;     // built with the GPU path
};

// Facts about the running executable; computed on the first call.
const BuildInfo& GetBuildInfo();

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COMMON_BUILD_INFO_H_
