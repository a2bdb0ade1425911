// Owners, and storing words; see word_cache.h.
#include "worker/text/word_cache.h"

#include <algorithm>
#include <atomic>

namespace zerofleet::text {

uint64_t WordCache::NewOwner() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

WordCache& WordCache::OfThread(uint64_t owner) {
  thread_local WordCache cache;
  if (cache.owner_ != owner) {
    cache.owner_ = owner;
    std::fill(cache.entries_.begin(), cache.entries_.end(), Entry());
  }
  return cache;
}

void WordCache::Put(std::string_view word, std::span<const int32_t> ids) {
  if (ids.size() > kMostIds) return;
  Entry& entry = entries_[PlaceOf(word)];
  entry.bytes = static_cast<uint8_t>(word.size());
  entry.count = static_cast<uint8_t>(ids.size());
  std::copy(word.begin(), word.end(), entry.word);
  std::copy(ids.begin(), ids.end(), entry.ids);
}

}  // namespace zerofleet::text
