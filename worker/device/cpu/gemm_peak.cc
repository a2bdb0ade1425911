// The ceiling of this device: the best rate of one large product on all of its threads.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/matmul.h"
#include "worker/device/cpu/matmul_primitive.h"

namespace zerofleet::device {

double CpuOps::MeasureGemmPeak(DType dtype, int rounds) {
  constexpr int64_t kSide = 960;  // large, but not a power of two, whose rows would share cache sets
  if (!HasBF16Instructions()) dtype = DType::kF32;
  // Zeros: their bit pattern is the same in every type, and the rate does not depend on the values.
  std::vector<std::byte> a(kSide * kSide * DTypeBytes(dtype)), b(a.size()), c(a.size());
  const MatmulArguments product{.m = kSide,
                                .n = kSide,
                                .k = kSide,
                                .a = {{a.data(), dtype}, kSide},
                                .b = {{b.data(), dtype}, kSide, /*transposed=*/true},
                                .c = {{c.data(), dtype}, kSide}};
  double best_seconds = 0;
  for (int round = 0; round <= rounds; ++round) {
    const double start = Clock::Real().MonotonicSeconds();
    if (!Matmul(pool_, product).ok()) return 0;
    const double seconds = Clock::Real().MonotonicSeconds() - start;
    // The first round pays for page faults and for oneDNN's code generation.
    if (round == 1 || (round > 1 && seconds < best_seconds)) best_seconds = seconds;
  }
  return 2.0 * kSide * kSide * kSide / best_seconds;
}

}  // namespace zerofleet::device
