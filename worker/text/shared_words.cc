// Making the table, and storing words; see shared_words.h.
#include "worker/text/shared_words.h"

namespace zerofleet::text {
namespace {

std::atomic<uint64_t> last_number = 0;

}  // namespace

SharedWords::SharedWords() : number_(++last_number) {}

void SharedWords::Make() {
  std::call_once(once_, [this] {
    places_ = decltype(places_)(kPlaces);
    table_.store(places_.data(), std::memory_order_release);
  });
}

// Each store is after the one before it for whoever reads them in the opposite order.
void SharedWords::Put(uint64_t hash, const CachedWord& word) {
  if (!made()) return;
  // The first place with no word yet, else the one where a word was put the longest ago.
  Place* oldest = &PlaceOf(hash, 0);
  for (size_t way = 1; way < kWays; ++way) {
    Place& other = PlaceOf(hash, way);
    if (other.version.load(std::memory_order_relaxed) < oldest->version.load(std::memory_order_relaxed))
      oldest = &other;
  }
  Place& place = *oldest;
  uint32_t version = place.version.load(std::memory_order_relaxed);
  if (version % 2 != 0 || !place.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire))
    return;
  for (size_t i = 0; i < word.key.size(); ++i) place.key[i].store(word.key[i], std::memory_order_release);
  for (size_t i = 0; i < word.ids.size(); ++i) place.ids[i].store(word.ids[i], std::memory_order_release);
  place.version.store(version + 2, std::memory_order_release);
}

}  // namespace zerofleet::text
