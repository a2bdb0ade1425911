// XXH3-128 in its canonical (big-endian) spelling; see digest.h.
#include "base/digest.h"

#include <xxhash.h>

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace zerofleet {
namespace {

std::string Spell(XXH128_hash_t hash) { return absl::StrFormat("%016x%016x", hash.high64, hash.low64); }

}  // namespace

struct StreamingDigest::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

std::string Digest128(std::string_view text) { return Spell(XXH3_128bits(text.data(), text.size())); }

bool IsDigest(std::string_view text) {
  return text.size() == kDigestDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

StreamingDigest::StreamingDigest() : state_(std::make_unique<State>()) {
  ZF_CHECK(state_->xxh != nullptr);
  XXH3_128bits_reset(state_->xxh);
}

StreamingDigest::~StreamingDigest() = default;

void StreamingDigest::Update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::string StreamingDigest::Hex() const { return Spell(XXH3_128bits_digest(state_->xxh)); }

DigestBits StreamingDigest::Bits() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace zerofleet
