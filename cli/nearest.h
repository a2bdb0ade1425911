// The valid name a person most likely meant: what every "unknown ..." message ends with.
#ifndef ZEROFLEET_CLI_NEAREST_H_
#define ZEROFLEET_CLI_NEAREST_H_

#include <string>
#include <string_view>
#include <vector>

namespace zerofleet {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int EditDistance(std::string_view a, std::string_view b);

// The candidate with the smallest distance to `name`, the first of equals; empty only without candidates.
std::string Nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_NEAREST_H_
