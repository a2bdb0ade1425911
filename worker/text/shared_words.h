// The ids of words that some thread has encoded, for all threads that use one tokenizer.
//
// A word has one place, a cache line, which threads read and write without waiting for each other: an odd version means
// that one is writing, a version that has changed meanwhile that what was read is of two words. Both count as not
// found.
#ifndef ZEROFLEET_WORKER_TEXT_SHARED_WORDS_H_
#define ZEROFLEET_WORKER_TEXT_SHARED_WORDS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/huge_pages.h"

namespace zerofleet::text {

// A word's bytes, then zeros, and in the last but one of the 32 bytes its length.
using WordKey = std::array<uint64_t, 4>;

// A word's key, with the number of its ids in the last byte, and the ids.
struct alignas(64) CachedWord {
  static constexpr size_t kMostIds = 7;
  static constexpr int kCountShift = 56;

  WordKey key = {};
  std::array<int32_t, kMostIds> ids;

  bool IsOf(const WordKey& other) const { return SameWord(key, other); }
  size_t count() const { return key[3] >> kCountShift; }
  static bool SameWord(const WordKey& a, const WordKey& b) {
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) << (64 - kCountShift)) == 0;
  }
};

// Empty until Make: a tokenizer of few words does without the 16 MiB.
class SharedWords {
 public:
  SharedWords();

  // A number that differs from those of all others in this process.
  uint64_t number() const { return number_; }

  // Makes the table. From any thread, and more than once.
  void Make();
  // Whether Find can find anything.
  bool made() const { return table_.load(std::memory_order_acquire) != nullptr; }

  // For a word's key and hash, which the caller computes. Prefetch and Find need made().
  void Prefetch(uint64_t hash) const {
    for (size_t way = 0; way < kWays; ++way) __builtin_prefetch(&PlaceOf(hash, way));
  }
  bool Find(uint64_t hash, const WordKey& key, CachedWord& word) const {
    for (size_t way = 0; way < kWays; ++way) {
      if (FindAt(PlaceOf(hash, way), key, word)) return true;
    }
    return false;
  }
  // Stores the word in place of another, unless another thread is doing so, or there is no table.
  void Put(uint64_t hash, const CachedWord& word);

 private:
  static constexpr size_t kPlaces = size_t{1} << 18, kWays = 2;

  struct alignas(64) Place {
    std::array<std::atomic<uint64_t>, 4> key = {};
    std::array<std::atomic<int32_t>, CachedWord::kMostIds> ids = {};
    std::atomic<uint32_t> version = 0;
  };
  static_assert(sizeof(Place) == 64);

  static bool FindAt(const Place& place, const WordKey& key, CachedWord& word) {
    const uint32_t version = place.version.load(std::memory_order_acquire);
    WordKey found;
    for (size_t i = 0; i < found.size(); ++i) found[i] = place.key[i].load(std::memory_order_acquire);
    if (version % 2 != 0 || !CachedWord::SameWord(found, key)) return false;
    word.key = found;
    for (size_t i = 0; i < word.ids.size(); ++i) word.ids[i] = place.ids[i].load(std::memory_order_acquire);
    if (place.version.load(std::memory_order_relaxed) == version) return true;
    word.key = {};
    return false;
  }
  // One of the neighbouring places where a word may be.
  Place& PlaceOf(uint64_t hash, size_t way) const {
    return table_.load(std::memory_order_acquire)[hash * kWays % kPlaces + way];
  }

  const uint64_t number_;
  std::once_flag once_;
  std::vector<Place, HugePageAllocator<Place>> places_;
  std::atomic<Place*> table_ = nullptr;  // the places, once they are made
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_SHARED_WORDS_H_
