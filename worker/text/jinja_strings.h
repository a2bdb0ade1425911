// Python's methods of strings, for chat templates.
#ifndef ZEROFLEET_WORKER_TEXT_JINJA_STRINGS_H_
#define ZEROFLEET_WORKER_TEXT_JINJA_STRINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zerofleet::text::jinja {

// Without the characters of `which` at its left and its right end; of blank space if `which` is null.
std::string_view Strip(std::string_view text, const std::string* which, bool left, bool right);
// At most `most` cuts, unless that is negative; from the left or from the right. At blank space, of which none is at
// the ends, if `separator` is null; it must not be empty.
std::vector<std::string> SplitText(std::string_view text, const std::string* separator, int64_t most, bool from_right);
// The first `most` occurrences, or all if that is negative. `from` must not be empty.
std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to, int64_t most);
// Each word's first letter upper case, and the others lower case; or of the first word alone.
std::string Capitals(std::string_view text, bool every_word);

}  // namespace zerofleet::text::jinja

#endif  // ZEROFLEET_WORKER_TEXT_JINJA_STRINGS_H_
