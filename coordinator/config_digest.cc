// The digest of a message's bytes; see config_digest.h.
#include "coordinator/config_digest.h"

#include "base/digest.h"

namespace zerofleet::coordinator {

// Within one executable, a message without maps has only one serialization.
std::string ConfigDigest(const v1::Config& config) {
  // The tokenizer's path may differ from machine to machine; its digest identifies it.
  v1::Config known = config;
  if (!config.data().tokenizer_digest().empty()) known.mutable_data()->clear_tokenizer();
  return Digest128(known.SerializeAsString());
}

}  // namespace zerofleet::coordinator
