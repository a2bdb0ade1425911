// Owners, and storing words; see word_cache.h.
#include "worker/text/word_cache.h"

#include <algorithm>
#include <atomic>

namespace zerofleet::text {

constexpr std::array<WordCache::Key, WordCache::kMostBytes + 1> WordCache::kMasks = [] {
  std::array<Key, kMostBytes + 1> masks = {};
  for (size_t bytes = 0; bytes <= kMostBytes; ++bytes) {
    for (size_t at = 0; at < bytes; ++at) masks[bytes][at / 8] |= uint64_t{UINT8_MAX} << (at % 8 * 8);
  }
  return masks;
}();

uint64_t WordCache::NewOwner() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

WordCache& WordCache::OfThread(uint64_t owner) {
  thread_local WordCache cache;
  if (cache.owner_ != owner) {
    cache.owner_ = owner;
    std::ranges::fill(cache.near_, Entry());
    cache.far_.clear();
    cache.stored_ = 0;
  }
  return cache;
}

void WordCache::Put(const Word& word, std::span<const int32_t> ids) {
  if (ids.size() > kMostIds) return;
  if (++stored_ == kNear) far_.resize(kFar);
  Entry entry;
  entry.key = word.key;
  entry.key[3] |= uint64_t{ids.size()} << kCountShift;
  std::ranges::copy(ids, entry.ids);
  near_[word.hash % kNear] = entry;
  if (!far_.empty()) far_[word.hash % kFar] = entry;
}

}  // namespace zerofleet::text
