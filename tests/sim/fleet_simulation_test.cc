// The fleet under seeded faults: every property of invariants.h holds, and every kind of end is reached.
#include "tests/sim/fleet_simulation.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace zerofleet::sim {
namespace {

constexpr uint64_t kSeeds = 2000;

TEST(FleetSimulationTest, InvariantsHoldWhateverHappens) {
  std::map<absl::StatusCode, int> ends;
  int64_t recoveries = 0, restored = 0, adopted = 0, failed_saves = 0, last_saves = 0, rollbacks = 0, shrunk = 0,
          grown = 0, fenced = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const SimulationResult result = Simulate(seed, nullptr);
    ASSERT_EQ(result.violation, "") << "fleet_simulation --seed " << seed << " --trace shows it";
    recoveries += result.recoveries;
    restored += result.restored;
    adopted += result.adopted;
    fenced += result.fenced;
    failed_saves += result.failed_saves;
    rollbacks += result.rollbacks;
    shrunk += result.shrunk;
    grown += result.grown;
    for (const absl::Status& end : result.ends) {
      ++ends[end.code()];
      last_saves += absl::StrContains(end.message(), "the last save was tried");
    }
  }
  std::cout << recoveries << " recoveries, " << restored << " from memory, " << adopted << " adoptions, " << fenced
            << " coordinators that a newer one kept out, " << failed_saves << " failed saves, " << last_saves
            << " ends by them, " << rollbacks << " rollbacks, " << shrunk << " times fewer ranks, " << grown
            << " times more again\n";
  for (auto [code, count] : ends) std::cout << absl::StatusCodeToString(code) << ": " << count << " runs\n";
  // The simulation reaches the situations that it is for.
  EXPECT_GT(recoveries, static_cast<int64_t>(kSeeds) / 2);
  EXPECT_GT(restored, static_cast<int64_t>(kSeeds) / 100);
  EXPECT_GT(adopted, static_cast<int64_t>(kSeeds) / 10);
  EXPECT_GT(fenced, static_cast<int64_t>(kSeeds) / 50);
  EXPECT_GT(failed_saves, static_cast<int64_t>(kSeeds) / 10);
  EXPECT_GT(last_saves, 0);
  EXPECT_GT(rollbacks, static_cast<int64_t>(kSeeds) / 10);
  EXPECT_GT(shrunk, static_cast<int64_t>(kSeeds) / 100);
  EXPECT_GT(grown, static_cast<int64_t>(kSeeds) / 200);
  for (absl::StatusCode code : {absl::StatusCode::kOk, absl::StatusCode::kUnavailable, absl::StatusCode::kCancelled,
                                absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kResourceExhausted,
                                absl::StatusCode::kFailedPrecondition}) {
    EXPECT_GT(ends[code], 0) << absl::StatusCodeToString(code);
  }
}

TEST(FleetSimulationTest, ASeedRepeatsExactly) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::ostringstream first, second;
    Simulate(seed, &first);
    Simulate(seed, &second);
    EXPECT_FALSE(first.str().empty());
    EXPECT_EQ(first.str(), second.str()) << seed;
  }
}

}  // namespace
}  // namespace zerofleet::sim
