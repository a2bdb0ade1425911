// Merging beside the plainest way of doing it.
#include "worker/text/merges.h"

#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::text {
namespace {

using ::testing::ElementsAre;

using Table = std::map<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>>;  // of ranks and ids

// Merges the leftmost pair of the lowest rank, again and again.
std::vector<int32_t> Merged(const Table& table, std::vector<int32_t> symbols) {
  while (true) {
    size_t best = symbols.size();
    std::pair<int32_t, int32_t> lowest = {INT32_MAX, -1};
    for (size_t at = 0; at + 1 < symbols.size(); ++at) {
      const auto found = table.find({symbols[at], symbols[at + 1]});
      if (found != table.end() && found->second.first < lowest.first) lowest = found->second, best = at;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = lowest.second;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(Merges, NoneLeaveSymbolsAsTheyAre) {
  const Merges merges;
  std::vector<int32_t> symbols = {0, 0, 1};
  merges.Apply(symbols);
  EXPECT_THAT(symbols, ElementsAre(0, 0, 1));
}

TEST(Merges, ThePairThatIsAddedAgainTakesTheNewRankAndId) {
  Merges merges;
  merges.Add(1, 2, 0, 10);
  merges.Add(2, 3, 1, 11);
  merges.Add(1, 2, 2, 12);
  std::vector<int32_t> symbols = {1, 2, 3, 1, 2};
  merges.Apply(symbols);
  EXPECT_THAT(symbols, ElementsAre(1, 11, 12));
  EXPECT_TRUE(merges.AnyPair([](int32_t left, int32_t right) { return left == 2 && right == 3; }));
  EXPECT_FALSE(merges.AnyPair([](int32_t left, int32_t) { return left == 3; }));
}

// Few letters and many merges, so that most pairs have one, with ranks that differ or do not; words for the scan and
// for the heap.
TEST(Merges, GiveWhatThePlainestWayGives) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    const int32_t letters = 2 + static_cast<int32_t>(random() % 40), count = 1 << random() % 13;
    Merges merges;
    Table table;
    for (int32_t i = 0; i < count; ++i) {
      const auto symbol = [&] { return static_cast<int32_t>(random() % (letters + i)); };
      const int32_t left = symbol(), right = symbol(), rank = round % 2 == 0 ? i : static_cast<int32_t>(random() % 16);
      merges.Add(left, right, rank, letters + i);
      table[{left, right}] = {rank, letters + i};
    }
    for (int word = 0; word < 60; ++word) {
      std::vector<int32_t> symbols(random() % (word < 40 ? 36 : 200));
      for (int32_t& symbol : symbols) symbol = static_cast<int32_t>(random() % (letters + (word % 2 == 0 ? 0 : count)));
      const std::vector<int32_t> expected = Merged(table, symbols);
      merges.Apply(symbols);
      ASSERT_EQ(symbols, expected) << "round " << round << ", word " << word;
    }
  }
}

}  // namespace
}  // namespace zerofleet::text
