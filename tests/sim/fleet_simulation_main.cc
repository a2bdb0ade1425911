// fleet_simulation: runs the simulated fleet from the command line.
//
//   fleet_simulation [--seeds N] [--first SEED] [--all]   runs N seeds, and ends with the first that fails, or with all
//   fleet_simulation --seed SEED [--trace]        runs one again, and shows all that happens in it
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "tests/sim/fleet_simulation.h"

namespace {

constexpr char kUsage[] = "usage: fleet_simulation [--seeds N] [--first SEED] [--all] | --seed SEED [--trace]\n";

struct Arguments {
  uint64_t first = 0, count = 2000;
  bool trace = false, all = false;
};

bool Parse(const std::vector<std::string>& words, Arguments* arguments) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--trace" || words[i] == "--all") {
      (words[i] == "--all" ? arguments->all : arguments->trace) = true;
      continue;
    }
    uint64_t* value = words[i] == "--seeds" ? &arguments->count : &arguments->first;
    if (words[i] != "--seeds" && words[i] != "--first" && words[i] != "--seed") return false;
    if (words[i] == "--seed") arguments->count = 1;
    if (++i == words.size() || !absl::SimpleAtoi(words[i], value)) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse({argv + 1, argv + argc}, &arguments)) {
    std::cerr << kUsage;
    return 2;
  }
  const auto began = std::chrono::steady_clock::now();
  double seconds = 0;
  int64_t failed = 0;
  int64_t recoveries = 0, restored = 0, adopted = 0, fenced = 0, rollbacks = 0, shrunk = 0, grown = 0;
  for (uint64_t seed = arguments.first; seed < arguments.first + arguments.count; ++seed) {
    const zerofleet::sim::SimulationResult result =
        zerofleet::sim::Simulate(seed, arguments.trace ? &std::cout : nullptr);
    seconds += result.seconds;
    recoveries += result.recoveries;
    restored += result.restored;
    adopted += result.adopted;
    fenced += result.fenced;
    rollbacks += result.rollbacks;
    shrunk += result.shrunk;
    grown += result.grown;
    if (result.violation.empty()) continue;
    std::cerr << "seed " << seed << " failed: " << result.violation << "\nfleet_simulation --seed " << seed
              << " --trace shows it\n";
    ++failed;
    if (!arguments.all) return 1;
  }
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::cout << arguments.count << " seeds, " << seconds << " s simulated in " << took << " s, " << recoveries
            << " recoveries, " << restored << " of them from memory, " << adopted << " adoptions, " << fenced
            << " coordinators that a newer one kept out, " << rollbacks << " rollbacks, " << shrunk
            << " times fewer ranks, " << grown << " times more again\n";
  return failed == 0 ? 0 : 1;
}
