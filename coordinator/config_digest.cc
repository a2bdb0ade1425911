// The digest of a message's bytes; see config_digest.h.
#include "coordinator/config_digest.h"

#include "base/digest.h"

namespace zerofleet::coordinator {

// A message without maps has one serialization, in one executable.
std::string ConfigDigest(const v1::Config& config) {
  // Where the tokenizer lies is each machine's own; its digest says which it is.
  v1::Config known = config;
  if (!config.data().tokenizer_digest().empty()) known.mutable_data()->clear_tokenizer();
  return Digest128(known.SerializeAsString());
}

}  // namespace zerofleet::coordinator
