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

bool WordCache::MakeKeyOf(std::string_view word, WordKey& key) {
  char shortened[kMostBytes];
  word = Shorten(word, shortened);
  if (word.size() > kMostBytes) return false;
  key = {};
  std::memcpy(key.data(), word.data(), word.size());
  key[3] |= uint64_t{word.size()} << kLengthShift;
  return true;
}

std::string_view WordCache::Shorten(std::string_view word, char (&shortened)[kMostBytes]) {
  size_t marks = 0;
  while (word.substr(marks * kSpaceMark.size()).starts_with(kSpaceMark)) ++marks;
  const std::string_view rest = word.substr(marks * kSpaceMark.size());
  if (marks < 2 || marks > UINT8_MAX || rest.size() > kMostBytes - 2) return word;
  shortened[0] = '\xFF';
  shortened[1] = static_cast<char>(marks);
  std::memcpy(shortened + 2, rest.data(), rest.size());
  return {shortened, rest.size() + 2};
}

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
