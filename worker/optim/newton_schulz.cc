// Products and sums of the device; see newton_schulz.h.
#include "worker/optim/newton_schulz.h"

#include <algorithm>

namespace zerofleet::optim {
namespace {

constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
constexpr double kLeastNorm = 1e-7;

device::Tensor Of(float* values) { return {values, device::DType::kF32}; }

// to += scale * from, or = without `add`.
void Combine(device::Ops& ops, device::Stream& stream, int64_t count, float* from, double scale, bool add, float* to) {
  ops.Columns(stream, {.m = 1,
                       .n = count,
                       .from = Of(from),
                       .from_columns = count,
                       .scale = static_cast<float>(scale),
                       .add = add,
                       .to = Of(to),
                       .to_columns = count});
}

}  // namespace

void NewtonSchulz(device::Ops& ops, device::Stream& stream, int64_t rows, int64_t columns, float* x,
                  const NewtonSchulzMemory& memory) {
  const int64_t count = rows * columns, side = std::min(rows, columns);
  const bool tall = rows > columns;
  ops.SumSquares(stream, count, Of(x), memory.sum);
  ops.DivideByNorm(stream, count, memory.sum, kLeastNorm, x);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    if (tall) {
      ops.Zero(stream, memory.gram, side * side * static_cast<int64_t>(sizeof(float)));
      ops.LinearBackwardWeight(stream, {.m = rows, .n = side, .k = side, .dy = Of(x), .x = Of(x), .dw = memory.gram});
    } else {
      ops.LinearForward(stream, {.m = side, .n = side, .k = columns, .x = Of(x), .w = Of(x), .y = Of(memory.gram)});
    }
    // The Gram matrix is symmetric, so its product with its transpose is its square.
    ops.LinearForward(
        stream, {.m = side, .n = side, .k = side, .x = Of(memory.gram), .w = Of(memory.gram), .y = Of(memory.squared)});
    Combine(ops, stream, side * side, memory.squared, kC, /*add=*/false, memory.squared);
    Combine(ops, stream, side * side, memory.gram, kB, /*add=*/true, memory.squared);
    if (tall) {
      ops.LinearForward(stream,
                        {.m = rows, .n = side, .k = side, .x = Of(x), .w = Of(memory.squared), .y = Of(memory.next)});
    } else {
      ops.LinearBackwardInput(
          stream, {.m = side, .n = side, .k = columns, .dy = Of(memory.squared), .w = Of(x), .dx = Of(memory.next)});
    }
    Combine(ops, stream, count, x, kA, /*add=*/true, memory.next);
    Combine(ops, stream, count, memory.next, 1, /*add=*/false, x);
  }
}

}  // namespace zerofleet::optim
