// Ops on flat vectors (ops.h): what ZeRO's shards are made of.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/units.h"
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet {
namespace {

constexpr int64_t kMostPartials = 256;  // partial sums of squares, one a block

kernels::AdamWFactors FactorsOf(const AdamWStep& s) {
  const double step = static_cast<double>(s.step);
  const double correction1 = 1.0 - std::pow(s.beta1, step);
  const double correction2 = 1.0 - std::pow(s.beta2, step);
  return {.gradient_scale = static_cast<float>(s.gradient_scale),
          .one_minus_beta1 = static_cast<float>(1.0 - s.beta1),
          .beta2 = static_cast<float>(s.beta2),
          .one_minus_beta2 = static_cast<float>(1.0 - s.beta2),
          .decay = static_cast<float>(1.0 - s.learning_rate * s.weight_decay),
          .step_size = static_cast<float>(s.learning_rate / correction1),
          .sqrt_correction2 = static_cast<float>(std::sqrt(correction2)),
          .epsilon = static_cast<float>(s.epsilon)};
}

}  // namespace

void CpuOps::Convert(Stream&, int64_t count, Tensor from, Tensor to) {
  if (from.data == to.data) {
    // In place a later block's results would land on an earlier block's inputs: one thread, front to back.
    if (from.dtype != to.dtype) kernels::Convert(count, from, to);
    return;
  }
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::Convert(end - begin, from.Offset(begin), to.Offset(begin));
  });
}

void CpuOps::Accumulate(Stream&, int64_t count, Tensor from, float* accumulator) {
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::Accumulate(end - begin, from.Offset(begin), accumulator + begin);
  });
}

void CpuOps::SumSquares(Stream&, int64_t count, Tensor x, double* sum) {
  const int64_t block = std::max(kElementBlock, RoundUp(CeilDivide(count, kMostPartials), 16));
  std::array<double, kMostPartials> partials;
  pool_.RunBlocks(count, block, [&](int64_t begin, int64_t end) {
    partials[begin / block] = kernels::SumSquares(end - begin, x.Offset(begin));
  });
  double total = 0;
  for (int64_t i = 0; i < CeilDivide(count, block); ++i) total += partials[i];
  *sum = total;
}

void CpuOps::Zero(Stream&, void* data, int64_t bytes) {
  pool_.RunBlocks(bytes, kElementBlock * 4, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<std::byte*>(data) + begin, 0, static_cast<size_t>(end - begin));
  });
}

void CpuOps::Fill(Stream&, int64_t count, float value, float* to) {
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) { std::fill(to + begin, to + end, value); });
}

void CpuOps::AdamW(Stream&, int64_t count, const AdamWStep& step, Tensor gradient, float* master, float* exp_avg,
                   float* exp_avg_sq, Tensor parameter) {
  const kernels::AdamWFactors factors = FactorsOf(step);
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::AdamW(end - begin, factors, gradient.Offset(begin), master + begin, exp_avg + begin, exp_avg_sq + begin,
                   parameter.Offset(begin));
  });
}

}  // namespace zerofleet
