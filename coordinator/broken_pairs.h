// Ranks that cannot reach each other, and whom to give up for it.
//
// Both reach the coordinator, so nothing says which of the two is at fault. Giving up one end of each broken pair is
// enough, and if many cannot reach one rank, that rank is the likely cause.
#ifndef ZEROFLEET_COORDINATOR_BROKEN_PAIRS_H_
#define ZEROFLEET_COORDINATOR_BROKEN_PAIRS_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace zerofleet::coordinator {

// Two ranks of a view, the lower first; a pair that is broken in both directions is one pair.
using BrokenPair = std::pair<int, int>;
BrokenPair PairOf(int rank, int other);

// Ranks, ascending, that include at least one of each pair. Chosen greedily: the rank that is in most of the remaining
// pairs, the highest of equals, until no pair remains.
std::vector<int> CoverOf(std::set<BrokenPair> pairs);

// "ranks 0 and 2, 1 and 2 cannot reach each other"
std::string Describe(const std::set<BrokenPair>& pairs);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_BROKEN_PAIRS_H_
