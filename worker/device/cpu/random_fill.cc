// FillNormal (ops.h): Philox4x32-10 (Salmon et al. 2011), then Box and Muller's transform in double.
//
// Elements 4b to 4b+3 come from counter (b, stream_id) under the key `seed`, so any range can be filled on its own.
#include <array>
#include <cmath>

#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"

namespace zerofleet {
namespace {

using Words = std::array<uint32_t, 4>;

Words Philox(uint64_t seed, uint64_t stream_id, uint64_t block) {
  Words x = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(stream_id),
             static_cast<uint32_t>(stream_id >> 32)};
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x[0], product1 = uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

std::array<float, 4> FourNormals(const Words& words, double deviation) {
  constexpr double kTwoPi = 6.283185307179586;
  std::array<float, 4> normals;
  for (int pair = 0; pair < 2; ++pair) {
    // Half a step in from both ends: the logarithm never sees 0.
    const double radius = std::sqrt(-2.0 * std::log((words[2 * pair] + 0.5) * 0x1p-32));
    const double angle = kTwoPi * ((words[2 * pair + 1] + 0.5) * 0x1p-32);
    normals[2 * pair] = static_cast<float>(deviation * radius * std::cos(angle));
    normals[2 * pair + 1] = static_cast<float>(deviation * radius * std::sin(angle));
  }
  return normals;
}

}  // namespace

void CpuOps::FillNormal(Stream&, int64_t count, uint64_t seed, uint64_t stream_id, int64_t first, float deviation,
                        float* to) {
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) {
    std::array<float, 4> normals{};
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t element = static_cast<uint64_t>(first + i);
      if (i == begin || element % 4 == 0) normals = FourNormals(Philox(seed, stream_id, element / 4), deviation);
      to[i] = normals[element % 4];
    }
  });
}

}  // namespace zerofleet
