// Whose words a thread has, and storing them; see word_cache.h.
#include "worker/text/word_cache.h"

#include <algorithm>

namespace zerofleet::text {

constexpr std::array<WordKey, WordCache::kMostBytes + 1> WordCache::kMasks = [] {
  std::array<WordKey, kMostBytes + 1> masks = {};
  for (size_t bytes = 0; bytes <= kMostBytes; ++bytes) {
    for (size_t at = 0; at < bytes; ++at) masks[bytes][at / 8] |= uint64_t{UINT8_MAX} << (at % 8 * 8);
  }
  return masks;
}();

WordCache& WordCache::OfThread(SharedWords& shared) {
  thread_local WordCache cache;
  if (cache.shared_number_ != shared.number()) {
    cache.shared_number_ = shared.number();
    std::ranges::fill(cache.near_, CachedWord());
    cache.stored_ = 0;
  }
  cache.shared_ = &shared;
  return cache;
}

void WordCache::Put(const Word& word, std::span<const int32_t> ids) {
  // So many words that the near table begins to be full.
  constexpr size_t kMany = kNear / 4;
  if (ids.size() > kMostIds) return;
  if (++stored_ == kMany) shared_->Make();
  CachedWord cached;
  cached.key = word.key;
  cached.key[3] |= uint64_t{ids.size()} << CachedWord::kCountShift;
  std::ranges::copy(ids, cached.ids.begin());
  near_[word.hash % kNear] = cached;
  shared_->Put(word.hash, cached);
}

}  // namespace zerofleet::text
