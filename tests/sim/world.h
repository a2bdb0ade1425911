// What all parts of the simulated fleet share: time, chance, the log, and the first violation.
//
// There is one thread, and the seed decides everything, so that a failure is replayed from its seed alone.
#ifndef ZEROFLEET_TESTS_SIM_WORLD_H_
#define ZEROFLEET_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"

namespace zerofleet::sim {

class World {
 public:
  // `trace`: where to write the events; may be null.
  World(uint64_t seed, std::ostream* trace) : random_(seed), trace_(trace) {}

  double now() const { return now_; }
  void After(double seconds, std::function<void()> what);
  // Runs the next event; false if there is none.
  bool RunNext();

  double Uniform(double low, double high);
  bool Chance(double probability) { return Uniform(0, 1) < probability; }
  int Below(int count) { return static_cast<int>(Next() % static_cast<uint64_t>(count)); }
  // A message's delay in seconds, which is mostly short.
  double Delay() { return Chance(0.05) ? Uniform(0, 0.5) : Uniform(0.001, 0.03); }

  bool tracing() const { return trace_ != nullptr; }
  template <typename... Parts>
  void Trace(const Parts&... parts) {
    if (trace_ != nullptr)
      *trace_ << absl::StrCat(now_) << " " << absl::StrCat(parts...)
              << std::endl;  // flushed, in case the next event ends the process
  }

  // A property did not hold. The first violation counts, since those that follow may be its consequence.
  void Violate(const std::string& what);
  const std::string& violation() const { return violation_; }

 private:
  struct Later {
    double at;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Later& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };

  uint64_t Next();

  uint64_t random_;
  std::ostream* trace_;
  double now_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Later> queue_;
  std::string violation_;
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_WORLD_H_
