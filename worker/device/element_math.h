// element_math.inc for single floats: CUDA kernels and tests.
#ifndef ZEROFLEET_WORKER_DEVICE_ELEMENT_MATH_H_
#define ZEROFLEET_WORKER_DEVICE_ELEMENT_MATH_H_

#include <cmath>

#include "worker/device/host_device.h"
#include "worker/device/step_control.h"

namespace zerofleet::device::element {

struct FloatMath {
  using V = float;
  ZF_HOST_DEVICE static float Set(float value) { return value; }
  ZF_HOST_DEVICE static float Neg(float x) { return -x; }
  ZF_HOST_DEVICE static float MulAdd(float a, float b, float c) { return std::fmaf(a, b, c); }
  ZF_HOST_DEVICE static float NegMulAdd(float a, float b, float c) { return std::fmaf(-a, b, c); }
  ZF_HOST_DEVICE static float Min(float a, float b) { return b < a ? b : a; }
  ZF_HOST_DEVICE static float Sqrt(float x) { return std::sqrt(x); }
  // GPUs use the short forms: a few instructions instead of about forty. Exp is within 2 + 1.2 |x| units in the last
  // place, Reciprocal within 2.
#ifdef __CUDA_ARCH__
  __device__ static float Exp(float x) { return __expf(x); }
  __device__ static float Reciprocal(float x) { return __fdividef(1.0f, x); }
#else
  ZF_HOST_DEVICE static float Exp(float x) { return std::exp(x); }
  ZF_HOST_DEVICE static float Reciprocal(float x) { return 1.0f / x; }
#endif
};

#define ZF_ELEMENT ZF_HOST_DEVICE inline
#include "worker/device/element_math.inc"
#undef ZF_ELEMENT

}  // namespace zerofleet::device::element

#endif  // ZEROFLEET_WORKER_DEVICE_ELEMENT_MATH_H_
