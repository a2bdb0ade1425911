// The configuration as ranks and coordinator compare it: by its digest, so that no message but Welcome carries it.
#ifndef ZEROFLEET_COORDINATOR_CONFIG_DIGEST_H_
#define ZEROFLEET_COORDINATOR_CONFIG_DIGEST_H_

#include <cstdint>
#include <string>

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::coordinator {

// The largest configuration, complete and as JSON, that a run may have; on the wire it is smaller. It is checked when a
// configuration is read, and whatever carries one has room for this size.
inline constexpr int64_t kMostConfigBytes = int64_t{1} << 20;

// 32 hexadecimal digits.
std::string ConfigDigest(const v1::Config& config);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_CONFIG_DIGEST_H_
