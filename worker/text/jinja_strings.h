// Python's methods of strings, for chat templates.
#ifndef ZEROFLEET_WORKER_TEXT_JINJA_STRINGS_H_
#define ZEROFLEET_WORKER_TEXT_JINJA_STRINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zerofleet::text::jinja {

// `text` without the characters of `which` at its left or right end; without white space if `which` is null.
std::string_view Strip(std::string_view text, const std::string* which, bool left, bool right);
// Cuts at most `most` times (any number if negative), from the left or from the right. If `separator` is null, cuts at
// white space and ignores it at the ends; otherwise `separator` must not be empty.
std::vector<std::string> SplitText(std::string_view text, const std::string* separator, int64_t most, bool from_right);
// Replaces the first `most` occurrences, or all if `most` is negative. `from` must not be empty.
std::string ReplaceText(std::string_view text, std::string_view from, std::string_view to, int64_t most);
// Capitalises each word, or only the first, and makes all other letters lower case.
std::string Capitals(std::string_view text, bool every_word);

}  // namespace zerofleet::text::jinja

#endif  // ZEROFLEET_WORKER_TEXT_JINJA_STRINGS_H_
