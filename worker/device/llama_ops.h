// The ops that the Llama family needs in addition to those of ops.h: RMS norm, rotary positions, the gate of SwiGLU.
#ifndef ZEROFLEET_WORKER_DEVICE_LLAMA_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_LLAMA_OPS_H_

#include <cstdint>
#include <span>

#include "worker/device/device.h"
#include "worker/device/tensor.h"

namespace zerofleet::device {

struct RmsNormForwardArguments {
  int64_t m, c;
  float epsilon;  // added to the mean of squares
  Tensor x;       // (M,C)
  Tensor gamma;   // (C)
  Tensor y;       // (M,C), overwritten
  float* rstd;    // (M), overwritten: 1 / sqrt(mean of squares + epsilon)
};

struct RmsNormBackwardArguments {
  int64_t m, c;
  Tensor dy;                // (M,C)
  Tensor x;                 // (M,C), as the forward had it
  Tensor gamma;             // (C)
  const float* rstd;        // (M), from the forward
  Tensor dx;                // (M,C), added to
  float* dgamma = nullptr;  // (C), added to; null: not wanted
};

struct RotateArguments {
  int64_t batch, time;
  int64_t heads, head_size;            // the heads to turn, at the beginning of each row
  int64_t columns;                     // elements per row of x
  std::span<const float> frequencies;  // head_size / 2 angles per position, on the host
  int64_t past = 0;                    // position of each sequence's first row
  bool back;                           // turn by the angles' negatives: the gradient of the rotation
  Tensor x;                            // (B,T,columns), in place
  const int32_t* starts = nullptr;     // (B,T): for each token the position that counts as 0; null: the first
};

// A token's row holds heads of queries, keys and values. gammas(2,head_size) holds the queries' gamma, then the keys'.
struct HeadNormForwardArguments {
  int64_t m;
  int64_t heads, kv_heads, head_size;
  float epsilon;
  Tensor x;       // (M,(heads + 2 kv_heads) head_size)
  Tensor gammas;  // (2,head_size)
  Tensor y;       // as x, overwritten
  float* rstd;    // (heads + kv_heads,M), overwritten
};

struct HeadNormBackwardArguments {
  int64_t m;
  int64_t heads, kv_heads, head_size;
  Tensor x, gammas;   // as the forward had them
  const float* rstd;  // from the forward
  Tensor dy;          // as x: overwritten by x's gradient
  float* dgammas;     // (2,head_size), added to; null: not wanted
};

struct GateForwardArguments {
  int64_t m, n;
  Tensor x;  // (M,2N): per row the N values to activate, then their factors
  Tensor y;  // (M,N), overwritten
};

struct GateBackwardArguments {
  int64_t m, n;
  Tensor x;   // (M,2N), as the forward had it
  Tensor dy;  // (M,N)
  Tensor dx;  // (M,2N), overwritten
};

class LlamaOps {
 public:
  virtual ~LlamaOps() = default;

  // y = x * rstd * gamma (Zhang and Sennrich 2019); statistics are fp32.
  virtual void RmsNormForward(Stream&, const RmsNormForwardArguments&) = 0;
  // dx(M,C) += the gradient through the norm; dgamma(C) += gamma's gradient.
  virtual void RmsNormBackward(Stream&, const RmsNormBackwardArguments&) = 0;

  // Turns elements i and i + head_size / 2 of each head by position * frequencies[i]; positions begin at `past` (Su et
  // al. 2021; halves as Hugging Face stores them). Angles are fp32.
  virtual void Rotate(Stream&, const RotateArguments&) = 0;

  // Each head of queries and keys through an RMS norm; values are copied.
  virtual void HeadNormForward(Stream&, const HeadNormForwardArguments&) = 0;
  virtual void HeadNormBackward(Stream&, const HeadNormBackwardArguments&) = 0;

  // y = silu(first half of x) * second half (Shazeer 2020).
  virtual void GateForward(Stream&, const GateForwardArguments&) = 0;
  virtual void GateBackward(Stream&, const GateBackwardArguments&) = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_LLAMA_OPS_H_
