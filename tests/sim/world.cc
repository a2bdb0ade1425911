// Time jumps from event to event, and chance comes from one seed; see world.h.
#include "tests/sim/world.h"

#include <utility>

namespace zerofleet::sim {

void World::After(double seconds, std::function<void()> what) {
  queue_.push({now_ + seconds, ++order_, std::move(what)});
}

bool World::RunNext() {
  if (queue_.empty()) return false;
  Later next =
      std::move(const_cast<Later&>(queue_.top()));  // moves only its function, which plays no part in the order
  queue_.pop();
  now_ = next.at;
  next.what();
  return true;
}

// SplitMix64 (Steele, Lea and Flood, 2014), which gives the same numbers on every platform, unlike the standard
// library's distributions.
uint64_t World::Next() {
  uint64_t z = random_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double World::Uniform(double low, double high) {
  return low + (high - low) * static_cast<double>(Next() >> 11) * 0x1p-53;
}

void World::Violate(const std::string& what) {
  Trace("VIOLATION: ", what);
  if (violation_.empty()) violation_ = absl::StrCat("at ", now_, " s: ", what);
}

}  // namespace zerofleet::sim
