// A cache of the ids of short words, one per thread: most words of a text have occurred before.
//
// It is a table with one cache line per word, in which a word has exactly one place, so that a lookup is a hash and a
// comparison.
#ifndef ZEROFLEET_WORKER_TEXT_WORD_CACHE_H_
#define ZEROFLEET_WORKER_TEXT_WORD_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace zerofleet::text {

class WordCache {
 public:
  static constexpr size_t kMostBytes = 30, kMostIds = 8;

  // Returns a number for `owner` that differs from all others in this process.
  static uint64_t NewOwner();
  // This thread's cache, emptied if it belonged to another owner.
  static WordCache& OfThread(uint64_t owner);

  // Appends the ids of `word`, which has at most kMostBytes bytes; false if they are not in the cache.
  bool Find(std::string_view word, std::vector<int32_t>& ids) const {
    const Entry& entry = entries_[PlaceOf(word)];
    if (entry.bytes != word.size() || std::memcmp(entry.word, word.data(), word.size()) != 0) return false;
    ids.insert(ids.end(), entry.ids, entry.ids + entry.count);
    return true;
  }
  // Stores the ids of `word`, unless there are too many.
  void Put(std::string_view word, std::span<const int32_t> ids);

  // Appends the ids of a word of any length: from the cache, or by `encode(word, ids)`, which appends them.
  template <typename Encoder>
  void Encode(std::string_view word, std::vector<int32_t>& ids, const Encoder& encode) {
    char shortened[kMostBytes];
    const std::string_view key = Shorten(word, shortened);
    if (key.size() > kMostBytes) return encode(word, ids);
    if (Find(key, ids)) return;
    const size_t before = ids.size();
    encode(word, ids);
    Put(key, std::span(ids).subspan(before));
  }

 private:
  static constexpr size_t kEntries = size_t{1} << 15;

  struct alignas(64) Entry {
    uint8_t bytes = 0, count = 0;
    char word[kMostBytes];
    int32_t ids[kMostIds];
  };
  static_assert(sizeof(Entry) == 64);

  // An indented line begins with many space marks (U+2581), of three bytes each. Two or more of them become two bytes:
  // one that is in no UTF-8, and their number.
  static std::string_view Shorten(std::string_view word, char (&shortened)[kMostBytes]) {
    constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
    size_t marks = 0;
    while (word.substr(marks * kSpaceMark.size()).starts_with(kSpaceMark)) ++marks;
    const std::string_view rest = word.substr(marks * kSpaceMark.size());
    if (marks < 2 || marks > UINT8_MAX || rest.size() > kMostBytes - 2) return word;
    shortened[0] = '\xFF';
    shortened[1] = static_cast<char>(marks);
    std::memcpy(shortened + 2, rest.data(), rest.size());
    return {shortened, rest.size() + 2};
  }

  static size_t PlaceOf(std::string_view word) {
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
    uint64_t hash = word.size();
    for (size_t at = 0; at < word.size(); at += sizeof(uint64_t)) {
      uint64_t part = 0;
      std::memcpy(&part, word.data() + at, std::min(sizeof part, word.size() - at));
      hash = (hash ^ part) * kFactor;
      hash ^= hash >> 29;
    }
    return hash >> (64 - 15);
  }

  uint64_t owner_ = 0;
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_WORD_CACHE_H_
