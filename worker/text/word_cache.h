// A cache of the ids of short words, one per thread: most words of a text have occurred before.
//
// Two tables with one cache line per word: a near one that fits a core's own cache, and the one that all threads share,
// made when a text has many words. A word has exactly one place in each, so that a lookup is a hash and a comparison.
#ifndef ZEROFLEET_WORKER_TEXT_WORD_CACHE_H_
#define ZEROFLEET_WORKER_TEXT_WORD_CACHE_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/huge_pages.h"
#include "worker/text/shared_words.h"

namespace zerofleet::text {

class WordCache {
 public:
  static constexpr size_t kMostBytes = 30, kMostIds = CachedWord::kMostIds;

  // This thread's cache for the tokenizer of `shared`, emptied if it was another's.
  static WordCache& OfThread(SharedWords& shared);

  // Appends the ids of all words of `text` from `begin` to `end`: from the cache, or by `encode(word, ids)`, which
  // appends them. `scan(at, ends)` finds words as a Scanner does (scanners.h), none of them beyond `end`.
  template <typename Scan, typename Encoder>
  void Encode(std::string_view text, size_t begin, size_t end, const Scan& scan, std::vector<int32_t>& ids,
              const Encoder& encode) {
    // Where words are kept is known some words ahead, so that the processor fetches it meanwhile.
    std::array<Word, kAhead> words;
    std::array<size_t, kAhead> ends;
    while (begin < end) {
      const size_t count = scan(begin, std::span(ends));
      for (size_t i = 0; i < count; ++i) {
        Prepare(text, begin, ends[i], words[i]);
        begin = ends[i];
      }
      for (size_t i = 0; i < count; ++i) PrefetchShared(words[i]);
      for (size_t i = 0; i < count; ++i) EncodeWord(words[i], ids, encode);
    }
  }

  // A scan that finds words up to `end` one by one: `word_end(at)` is the end of the word that begins at `at`.
  template <typename WordEnd>
  static auto OneByOne(size_t end, WordEnd word_end) {
    return [=](size_t at, std::span<size_t> ends) {
      size_t count = 0;
      for (; count < ends.size() && at < end; ++count) ends[count] = at = word_end(at);
      return count;
    };
  }

 private:
  static constexpr size_t kNear = size_t{1} << 15;  // words of the near table
  static constexpr int kLengthShift = 48;

  static constexpr size_t kAhead = 64;

  struct Word {
    std::string_view word;
    WordKey key;
    uint64_t hash;
    bool is_kept;  // not too long
  };

  void Prepare(std::string_view text, size_t begin, size_t end, Word& word) const {
    word.word = text.substr(begin, end - begin);
    word.is_kept = MakeKey(word.word, text.size() - begin, word.key);
    if (!word.is_kept) return;
    word.hash = HashOf(word.key);
    __builtin_prefetch(&near_[word.hash % kNear]);
  }
  void PrefetchShared(const Word& word) const {
    if (word.is_kept && shared_->made() && !near_[word.hash % kNear].IsOf(word.key)) shared_->Prefetch(word.hash);
  }
  template <typename Encoder>
  void EncodeWord(const Word& word, std::vector<int32_t>& ids, const Encoder& encode) {
    if (!word.is_kept) return encode(word.word, ids);
    CachedWord& near = near_[word.hash % kNear];
    if (near.IsOf(word.key) || (shared_->made() && shared_->Find(word.hash, word.key, near))) {
      for (size_t i = 0; i < near.count(); ++i) ids.push_back(near.ids[i]);
      return;
    }
    const size_t before = ids.size();
    encode(word.word, ids);
    Put(word, std::span(ids).subspan(before));
  }
  // Stores the ids of the word, unless there are too many.
  void Put(const Word& word, std::span<const int32_t> ids);

  // Makes the key of `word`, behind whose beginning `readable` bytes can be read; false if the word is too long.
  [[gnu::always_inline]] static bool MakeKey(std::string_view word, size_t readable, WordKey& key) {
    const bool marks = word.size() > kSpaceMark.size() && word[kSpaceMark.size()] == kSpaceMark[0];
    if (marks || readable < sizeof key) return MakeKeyOf(word, key);
    if (word.size() > kMostBytes) return false;
    for (size_t part = 0; part < key.size(); ++part) {
      uint64_t bytes;
      std::memcpy(&bytes, word.data() + part * sizeof bytes, sizeof bytes);
      key[part] = bytes & kMasks[word.size()][part];
    }
    key[3] |= uint64_t{word.size()} << kLengthShift;
    return true;
  }
  // The same of a word that may be shortened, or at the end of a text.
  static bool MakeKeyOf(std::string_view word, WordKey& key);

  // An indented line begins with many space marks (U+2581), of three bytes each. Two or more of them become two bytes:
  // one that is in no UTF-8, and their number.
  static constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
  static std::string_view Shorten(std::string_view word, char (&shortened)[kMostBytes]);

  static uint64_t HashOf(const WordKey& key) {
    constexpr uint64_t kFirst = 0x9e3779b97f4a7c15u, kSecond = 0xbf58476d1ce4e5b9u, kThird = 0x94d049bb133111ebu;
    uint64_t hash = (key[0] ^ (key[3] >> 32 | key[3] << 32)) * kFirst + (key[1] ^ key[2] * kThird) * kSecond;
    hash = (hash ^ hash >> 32) * kThird;
    return hash ^ hash >> 32;
  }

  static const std::array<WordKey, kMostBytes + 1> kMasks;  // by a word's length, its bytes

  SharedWords* shared_ = nullptr;
  uint64_t shared_number_ = 0;
  std::vector<CachedWord, HugePageAllocator<CachedWord>> near_ = decltype(near_)(kNear);
  size_t stored_ = 0;  // words, since the cache was empty
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_WORD_CACHE_H_
