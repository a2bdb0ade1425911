// The valid name that a misspelt one most likely meant.
#ifndef ZEROFLEET_CLI_CONFIG_NEAREST_H_
#define ZEROFLEET_CLI_CONFIG_NEAREST_H_

#include <string>
#include <string_view>
#include <vector>

namespace zerofleet::cli {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int EditDistance(std::string_view a, std::string_view b);

// The candidate with the smallest distance to `name`, the first among equals, if it is near enough to be a misspelling:
// one edit in up to 4 characters of the longer of the two, two in up to 8, three in more. Otherwise empty: a
// far-fetched suggestion misleads.
std::string Nearest(std::string_view name, const std::vector<std::string>& candidates);

// "a, b or c"
std::string Alternatives(const std::vector<std::string>& names);

// The advice on a `name` that is not one of `names`: "did you mean bf16?", or all names, "use bf16, fp16 or fp32".
std::string NearestOrAll(std::string_view name, const std::vector<std::string>& names);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_NEAREST_H_
