// The digest of a message's bytes; see config_digest.h.
#include "coordinator/config_digest.h"

#include "base/digest.h"

namespace zerofleet::coordinator {

// A message without maps has one serialization, in one executable.
std::string ConfigDigest(const v1::Config& config) { return Digest128(config.SerializeAsString()); }

}  // namespace zerofleet::coordinator
