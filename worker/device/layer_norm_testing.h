// For tests: LayerNorm forward and backward, on tensors of a test's own kind.
#ifndef ZEROFLEET_WORKER_DEVICE_LAYER_NORM_TESTING_H_
#define ZEROFLEET_WORKER_DEVICE_LAYER_NORM_TESTING_H_

#include <cstdint>

#include "worker/device/ops.h"

namespace zerofleet::device {

inline constexpr float kNormEpsilon = 1e-5f;

// m rows of c elements; mean and rstd have one for each row, gamma, beta and their gradients one for each column.
template <typename T>
struct LayerNormTensors {
  int64_t m, c;
  const T &x, &gamma, &beta, &dy;
  const T &y, &mean, &rstd;
  const T &dx, &dgamma, &dbeta;
};

template <typename T>
void RunLayerNorm(Ops& ops, Stream& stream, const LayerNormTensors<T>& t) {
  ops.LayerNormForward(stream, {.m = t.m,
                                .c = t.c,
                                .epsilon = kNormEpsilon,
                                .x = t.x.tensor(),
                                .gamma = t.gamma.tensor(),
                                .beta = t.beta.tensor(),
                                .y = t.y.tensor(),
                                .mean = t.mean.as(),
                                .rstd = t.rstd.as()});
  ops.LayerNormBackward(stream, {.m = t.m,
                                 .c = t.c,
                                 .dy = t.dy.tensor(),
                                 .x = t.x.tensor(),
                                 .gamma = t.gamma.tensor(),
                                 .mean = t.mean.as(),
                                 .rstd = t.rstd.as(),
                                 .dx = t.dx.tensor(),
                                 .dgamma = t.dgamma.as(),
                                 .dbeta = t.dbeta.as()});
}

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_LAYER_NORM_TESTING_H_
