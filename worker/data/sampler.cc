// A Feistel network over the next power of four, iterated until the result lies inside the range (cycle walking; Black
// and Rogaway, "Ciphers with Arbitrary Finite Domains"): a bijection of [0, samples) in constant memory.
#include "worker/data/sampler.h"

#include "base/check.h"

namespace zerofleet::data {
namespace {

constexpr int kRounds = 6;

// The output function of splitmix64 (Steele, Lea and Flood 2014).
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

Sampler::Sampler(uint64_t seed, int64_t samples)
    : seed_(seed), samples_(static_cast<uint64_t>(samples)), half_bits_(1) {
  ZF_CHECK(samples >= 1);
  while (half_bits_ < 32 && (uint64_t{1} << (2 * half_bits_)) < samples_) ++half_bits_;
}

uint64_t Sampler::Permute(uint64_t index, uint64_t epoch_key) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = index >> half_bits_, right = index & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    uint64_t next = left ^ (Mix(Mix(epoch_key + round) ^ right) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

int64_t Sampler::Sample(int64_t position) const {
  ZF_CHECK(position >= 0);
  const uint64_t epoch = static_cast<uint64_t>(position) / samples_;
  const uint64_t epoch_key = Mix(Mix(seed_) ^ epoch);
  // The domain is at most four times the samples, so a walk takes under four steps on average.
  uint64_t index = static_cast<uint64_t>(position) % samples_;
  do {
    index = Permute(index, epoch_key);
  } while (index >= samples_);
  return static_cast<int64_t>(index);
}

}  // namespace zerofleet::data
