// Normal numbers from a counter: Philox4x32-10 (Salmon et al. 2011), then Box and Muller's transform in double.
//
// Elements 4b to 4b+3 come from counter (b, stream_id) under the key `seed`, so any range can be filled independently.
#ifndef ZEROFLEET_WORKER_DEVICE_RANDOM_NORMAL_H_
#define ZEROFLEET_WORKER_DEVICE_RANDOM_NORMAL_H_

#include <cmath>
#include <cstdint>

#include "worker/device/host_device.h"

namespace zerofleet::device {

struct PhiloxWords {
  uint32_t word[4];
};

ZF_HOST_DEVICE inline PhiloxWords Philox(uint64_t seed, uint64_t stream_id, uint64_t block) {
  PhiloxWords x = {{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(stream_id),
                    static_cast<uint32_t>(stream_id >> 32)}};
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x.word[0], product1 = uint64_t{0xCD9E8D57} * x.word[2];
    x = {{static_cast<uint32_t>(product1 >> 32) ^ x.word[1] ^ key0, static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ x.word[3] ^ key1, static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

struct FourNormals {
  float value[4];
};

ZF_HOST_DEVICE inline FourNormals NormalsOfBlock(uint64_t seed, uint64_t stream_id, uint64_t block, double deviation) {
  constexpr double kTwoPi = 6.283185307179586;
  const PhiloxWords words = Philox(seed, stream_id, block);
  FourNormals normals;
  for (int pair = 0; pair < 2; ++pair) {
    // Half a step in from both ends of [0, 1], so that the logarithm's argument is never 0.
    const double radius = std::sqrt(-2.0 * std::log((words.word[2 * pair] + 0.5) * 0x1p-32));
    const double angle = kTwoPi * ((words.word[2 * pair + 1] + 0.5) * 0x1p-32);
    normals.value[2 * pair] = static_cast<float>(deviation * radius * std::cos(angle));
    normals.value[2 * pair + 1] = static_cast<float>(deviation * radius * std::sin(angle));
  }
  return normals;
}

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_RANDOM_NORMAL_H_
