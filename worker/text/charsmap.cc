// A walk from unit to unit, each of which is checked to lie in the array; see charsmap.h.
#include "worker/text/charsmap.h"

#include <cstring>

#include "absl/status/status.h"

namespace zerofleet::text {
namespace {

bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t LeafValue(uint32_t unit) { return unit & 0x7FFFFFFFu; }
uint32_t Label(uint32_t unit) { return unit & 0x800000FFu; }
uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }

}  // namespace

absl::StatusOr<Charsmap> Charsmap::Parse(std::string_view blob) {
  Charsmap map;
  if (blob.empty()) return map;
  uint32_t bytes = 0;
  const bool fits = blob.size() >= sizeof bytes;
  if (fits) std::memcpy(&bytes, blob.data(), sizeof bytes);
  if (!fits || bytes > blob.size() - sizeof bytes || bytes % sizeof(uint32_t) != 0) {
    return absl::InvalidArgumentError("normalizer: the precompiled charsmap is cut short");
  }
  map.units_.resize(bytes / sizeof(uint32_t));
  std::memcpy(map.units_.data(), blob.data() + sizeof bytes, bytes);
  map.texts_ = std::string(blob.substr(sizeof bytes + bytes));
  return map;
}

Charsmap::Match Charsmap::LongestAt(std::string_view text) const {
  Match longest;
  if (units_.empty()) return longest;
  uint32_t at = Offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    at ^= static_cast<uint8_t>(text[i]);
    if (at >= units_.size() || Label(units_[at]) != static_cast<uint8_t>(text[i])) break;
    const uint32_t unit = units_[at];
    at ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (at >= units_.size() || LeafValue(units_[at]) >= texts_.size()) break;
    const size_t begin = LeafValue(units_[at]), end = texts_.find('\0', begin);
    longest = {std::string_view(texts_).substr(begin, end == std::string::npos ? end : end - begin), i + 1};
  }
  return longest;
}

}  // namespace zerofleet::text
