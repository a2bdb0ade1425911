// What the ops of ops.h are given. Its legend of shapes and its rules of types hold here: a Tensor without a type is of
// the compute type, every pointer is a device pointer.
#ifndef ZEROFLEET_WORKER_DEVICE_OP_ARGUMENTS_H_
#define ZEROFLEET_WORKER_DEVICE_OP_ARGUMENTS_H_

#include <cstdint>
#include <span>

#include "worker/device/step_control.h"
#include "worker/device/tensor.h"

namespace zerofleet::device {

// --- Linear layers

struct LinearForwardArguments {
  int64_t m, n, k;
  Tensor x;              // (M,K)
  Tensor w;              // (N,K)
  Tensor bias = {};      // (N); may be null
  Tensor residual = {};  // (M,N); may be null, or y
  Tensor y;              // (M,N), overwritten
};

struct LinearGeluForwardArguments {
  int64_t m, n, k;
  Tensor x;       // (M,K)
  Tensor w;       // (N,K)
  Tensor bias;    // (N)
  Tensor before;  // (M,N), overwritten
  Tensor y;       // (M,N), overwritten
};

struct LinearBackwardInputArguments {
  int64_t m, n, k;
  Tensor dy;  // (M,N)
  Tensor w;   // (N,K)
  Tensor dx;  // (M,K), overwritten
};

struct LinearBackwardInputGeluArguments {
  int64_t m, n, k;
  Tensor dy;       // (M,N)
  Tensor w;        // (N,K)
  Tensor before;   // (M,K), what the GELU took
  Tensor dbefore;  // (M,K), overwritten
};

struct LinearBackwardWeightArguments {
  int64_t m, n, k;
  Tensor dy;               // (M,N)
  Tensor x;                // (M,K)
  float* dw = nullptr;     // (N,K), added to
  float* dbias = nullptr;  // (N), added to; may be null
};

// --- Layer norm

struct LayerNormForwardArguments {
  int64_t m, c;
  float epsilon;  // added to the variance
  Tensor x;       // (M,C)
  Tensor gamma;   // (C)
  Tensor beta;    // (C)
  Tensor y;       // (M,C), overwritten
  float* mean;    // (M), overwritten
  float* rstd;    // (M), overwritten: 1 / sqrt(variance + epsilon)
};

struct LayerNormBackwardArguments {
  int64_t m, c;
  Tensor dy;                // (M,C)
  Tensor x;                 // (M,C), as the forward had it
  Tensor gamma;             // (C)
  const float* mean;        // (M), from the forward
  const float* rstd;        // (M), from the forward
  Tensor dx;                // (M,C), added to
  float* dgamma = nullptr;  // (C), added to; both null: they are not wanted
  float* dbeta = nullptr;   // (C), added to
};

// --- Attention

struct AttentionShape {
  int64_t batch, time, heads, head_size;
  int64_t kv_heads = heads;  // of keys and values; every heads / kv_heads query heads share one

  int64_t columns() const { return (heads + 2 * kv_heads) * head_size; }  // of queries, keys and values
};

struct AttentionForwardArguments {
  AttentionShape shape;
  Tensor qkv;        // (B,T,columns())
  Tensor out;        // (B,T,H*D), overwritten
  float* logsumexp;  // (B,H,T), overwritten
  void* scratch;     // AttentionScratchBytes(shape)
  // (B,T): the first position that each position sees, not above it and not falling within a sequence, as where
  // documents lie one behind another; null: 0.
  const int32_t* starts = nullptr;
};

struct AttentionBackwardArguments {
  AttentionShape shape;
  Tensor qkv;                       // (B,T,columns())
  Tensor out;                       // (B,T,H*D), from the forward
  const float* logsumexp;           // (B,H,T), from the forward
  Tensor dout;                      // (B,T,H*D)
  Tensor dqkv;                      // (B,T,columns()), overwritten
  void* scratch;                    // AttentionScratchBytes(shape)
  const int32_t* starts = nullptr;  // (B,T), as the forward had them
};

// --- Embeddings

struct EmbeddingForwardArguments {
  int64_t batch, time, c;
  const int32_t* tokens;  // (B,T), each in [0, V)
  Tensor wte;             // (V,C)
  Tensor wpe;             // (T_max,C), T_max >= T; may be null
  Tensor x;               // (B,T,C), overwritten
  // (B,T): the position in the sequence that counts as 0 for each; null: the first.
  const int32_t* starts = nullptr;
};

struct EmbeddingBackwardArguments {
  int64_t batch, time, c;
  const int32_t* tokens;            // (B,T), each in [0, V)
  Tensor dx;                        // (B,T,C)
  float* dwte;                      // (V,C), added to
  float* dwpe;                      // (T_max,C), added to
  const int32_t* starts = nullptr;  // (B,T), as the forward had them
};

// --- Output head

// What makes a token's logits their gradient again, from exp(logit - largest); the factor is as the device has it.
struct LogitsGradient {
  float largest, factor;
};

// What a training loss has beside the cross-entropy (Szegedy et al. 2016, §7; Chowdhery et al. 2022, §5): of a token
// (1 - label_smoothing) * -log p[target] + label_smoothing * the mean over the vocabulary of -log p + z_loss * (log of
// the softmax's denominator)^2.
struct LossTerms {
  float label_smoothing = 0, z_loss = 0;

  bool none() const { return label_smoothing == 0 && z_loss == 0; }
};

struct CrossEntropyArguments {
  int64_t m, c, vocab;
  Tensor x;                        // (M,C)
  Tensor w;                        // (V,C)
  const int32_t* targets;          // (M), each in [0, V), or -1: the token does not count
  const float* gradient_scale;     // one; read if dx is set
  double* loss_sum;                // one, overwritten
  Tensor dx = {};                  // (M,C), overwritten; null for the loss alone
  float* dw = nullptr;             // (V,C), added to if dx is set; may be null if `kept` is set
  void* scratch;                   // CrossEntropyScratchBytes(m, c, vocab, x.dtype)
  LogitsGradient* kept = nullptr;  // (M), overwritten, for BandOps::CrossEntropyBand; null with `terms`
  LossTerms terms = {};
};

// to(M, to_columns) = or, with `add`, += scale * from(M, from_columns), of N columns of each.
struct ColumnsArguments {
  int64_t m, n;
  Tensor from;
  int64_t from_columns, from_first = 0;
  float scale = 1;
  bool add = false;
  Tensor to;  // of from's type
  int64_t to_columns, to_first = 0;
};

// --- Flat vectors

// A run of elements of a flat vector with one rule of weight decay.
struct DecaySegment {
  int64_t offset, count;
  bool decay;
};

// Vectors are indexed by the segments' offsets; segments are in order, next to one another.
struct AdamWArguments {
  std::span<const DecaySegment> segments;  // in host memory
  const StepControl* control;
  Tensor gradient;    // fp32 or the compute type
  float* master;      // updated in place
  float* exp_avg;     // updated in place
  float* exp_avg_sq;  // updated in place
  Tensor parameter;   // overwritten; may be master itself where it is fp32
};

// As AdamWArguments.
struct SgdArguments {
  std::span<const DecaySegment> segments;
  const StepControl* control;
  Tensor gradient;
  float* master;
  float* momentum;  // updated in place
  Tensor parameter;
};

// The vectors are in memory that the host can read.
struct AverageArguments {
  int64_t count;
  const StepControl* control;
  const float* weights;
  float* average;  // updated in place
};

struct FillNormalArguments {
  int64_t count;
  uint64_t seed, stream_id;
  int64_t first;  // number of to[0] in the stream, >= 0
  float deviation;
  float* to;  // (count), overwritten
};

// --- The step's own numbers

struct SumScalarsArguments {
  const double* losses;  // (loss_count)
  const double* weights =
      nullptr;  // (loss_count): what each of them is divided by; null: known beforehand (StepRule::tokens)
  int64_t loss_count;
  const double* squares;  // (square_count)
  int64_t square_count;
  uint64_t flags;
  StepScalars* mine;  // one, overwritten
};

struct SumExactScalarsArguments {
  const double* losses;             // (loss_count)
  const double* weights = nullptr;  // as above
  int64_t loss_count;
  const ExactSum* squares;  // (square_count), normalized
  int64_t square_count;
  uint64_t flags;
  ExactScalars* mine;  // one, overwritten
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_OP_ARGUMENTS_H_
