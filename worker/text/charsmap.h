// The normalization of a sentencepiece model: a double array of what is replaced (Darts-clone's layout), and texts.
#ifndef ZEROFLEET_WORKER_TEXT_CHARSMAP_H_
#define ZEROFLEET_WORKER_TEXT_CHARSMAP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace zerofleet::text {

class Charsmap {
 public:
  // `blob` is a precompiled_charsmap: the array's size in bytes, the array, and texts that end with NUL. Empty: maps
  // nothing. InvalidArgument for one that is cut short.
  static absl::StatusOr<Charsmap> Parse(std::string_view blob);

  // What the longest beginning of `text` that is replaced becomes, and its bytes; no bytes if none is.
  struct Match {
    std::string_view replacement;
    size_t bytes = 0;
  };
  Match LongestAt(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_CHARSMAP_H_
