// The normalization of a sentencepiece model: a double array that maps the texts to replace (Darts-clone's layout), and
// their replacements.
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
  // `blob` is a precompiled_charsmap: the array's size in bytes, the array, and replacements that end with NUL. An
  // empty one maps nothing. InvalidArgument for one that is cut short.
  static absl::StatusOr<Charsmap> Parse(std::string_view blob);

  // The replacement of the longest replaceable prefix of `text`, and the prefix's length; 0 bytes if there is none.
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
