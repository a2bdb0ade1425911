// The arguments of the ops in ops.h. Its legend of shapes and its rules for types hold here: a Tensor without a stated
// type has the compute type, and every pointer is a device pointer.
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
  float* dw = nullptr;     // (N,K), added to; null if `written` is set
  Tensor written = {};     // (N,K), in place of dw: overwritten, fp32 or of the compute type
  float* dbias = nullptr;  // (N), added to; may be null

  Tensor gradient() const { return written ? written : Tensor{dw, DType::kF32}; }
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
  float* dgamma = nullptr;  // (C), added to; both null: not wanted
  float* dbeta = nullptr;   // (C), added to
};

// --- Attention

struct AttentionShape {
  int64_t batch, time, heads, head_size;
  int64_t kv_heads = heads;  // heads of keys and values; every heads / kv_heads consecutive query heads share one

  int64_t columns() const { return (heads + 2 * kv_heads) * head_size; }  // queries, keys and values of a token
};

struct AttentionForwardArguments {
  AttentionShape shape;
  Tensor qkv;        // (B,T,columns())
  Tensor out;        // (B,T,H*D), overwritten
  float* logsumexp;  // (B,H,T), overwritten
  void* scratch;     // AttentionScratchBytes(shape)
  // (B,T): the first position that each position sees, as where several documents lie in one sequence. It is at most
  // the position itself and never falls within a sequence. Null: 0.
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
  // (B,T): for each token the position in the sequence that counts as 0; null: the first.
  const int32_t* starts = nullptr;
};

struct EmbeddingBackwardArguments {
  int64_t batch, time, c;
  const int32_t* tokens;            // (B,T), each in [0, V)
  Tensor dx;                        // (B,T,C)
  float* dwte;                      // (V,C), added to
  float* dwpe;                      // (T_max,C), added to; may be null
  const int32_t* starts = nullptr;  // (B,T), as the forward had them
};

// --- Output head

// What is kept of a token's softmax to compute the logits' gradient again: from exp(logit - largest) and `factor`,
// whose meaning differs between devices.
struct LogitsGradient {
  float largest, factor;
};

// What a training loss has beside the cross-entropy (Szegedy et al. 2016, §7; Chowdhery et al. 2022, §5). A token's
// loss is (1 - label_smoothing) * -log p[target] + label_smoothing * (the mean over the vocabulary of -log p) + z_loss
// * (log of the softmax's denominator)^2.
struct LossTerms {
  float label_smoothing = 0, z_loss = 0;

  bool none() const { return label_smoothing == 0 && z_loss == 0; }
};

struct CrossEntropyArguments {
  int64_t m, c, vocab;
  Tensor x;                        // (M,C)
  Tensor w;                        // (V,C)
  const int32_t* targets;          // (M), each in [0, V), or -1: the token does not count
  const float* gradient_scale;     // one value; read if dx is set
  double* loss_sum;                // one value, overwritten
  Tensor dx = {};                  // (M,C), overwritten; null for the loss alone
  float* dw = nullptr;             // (V,C), added to if dx is set; may be null if `kept` is set
  void* scratch;                   // CrossEntropyScratchBytes(m, c, vocab, x.dtype)
  LogitsGradient* kept = nullptr;  // (M), overwritten, for BandOps::CrossEntropyBand; null with `terms`
  LossTerms terms = {};
};

// N columns of `to`(M, to_columns), from to_first on, become (with `add`: += ) scale * the N columns of `from`(M,
// from_columns) from from_first on.
struct ColumnsArguments {
  int64_t m, n;
  Tensor from;
  int64_t from_columns, from_first = 0;
  float scale = 1;
  bool add = false;
  Tensor to;  // same type as `from`
  int64_t to_columns, to_first = 0;
};

// --- Flat vectors

// Consecutive elements of a flat vector, all with or all without weight decay.
struct DecaySegment {
  int64_t offset, count;
  bool decay;
};

// The segments' offsets index all vectors. Segments are in order, and each begins where the one before ends.
struct AdamWArguments {
  std::span<const DecaySegment> segments;  // in host memory
  const StepControl* control;
  Tensor gradient;    // fp32 or the compute type
  float* master;      // updated in place
  float* exp_avg;     // updated in place
  float* exp_avg_sq;  // updated in place
  Tensor parameter;   // overwritten; may be master itself where it is fp32
};

// Members as in AdamWArguments.
struct SgdArguments {
  std::span<const DecaySegment> segments;
  const StepControl* control;
  Tensor gradient;
  float* master;
  float* momentum;  // updated in place
  Tensor parameter;
};

struct MuonDirectionArguments {
  int64_t count;
  const StepControl* control;
  Tensor gradient;     // fp32 or the compute type
  float* momentum;     // updated in place, unless `ahead`
  bool ahead = false;  // the direction of one further step with the same gradient
  Tensor to;           // overwritten
};

struct MuonMoveArguments {
  int64_t count;
  const StepControl* control;
  bool decays;  // whether the control's decay applies to these weights
  float scale;
  const float* direction;
  const float* from;  // the weights
  Tensor to;          // fp32 or the compute type, overwritten; may be `from` itself
};

struct AssignArguments {
  int64_t count;
  const StepControl* control;
  Tensor from;  // fp32 or the compute type
  float* to;
};

struct AverageArguments {
  int64_t count;
  const StepControl* control;
  const float* weights;
  float* average;  // updated in place
};

struct FillNormalArguments {
  int64_t count;
  uint64_t seed, stream_id;
  int64_t first;  // index of to[0] in the stream, >= 0
  float deviation;
  float* to;  // (count), overwritten
};

// --- The step's own numbers

struct SumScalarsArguments {
  const double* losses;  // (loss_count)
  const double* weights =
      nullptr;  // (loss_count): what each loss is divided by; null: known beforehand (StepRule::tokens)
  int64_t loss_count;
  const double* squares;  // (square_count)
  int64_t square_count;
  uint64_t flags;
  StepScalars* mine;  // one value, overwritten
};

struct SumExactScalarsArguments {
  const double* losses;             // (loss_count)
  const double* weights = nullptr;  // as in SumScalarsArguments
  int64_t loss_count;
  const ExactSum* squares;  // (square_count), normalized
  int64_t square_count;
  uint64_t flags;
  ExactScalars* mine;  // one value, overwritten
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_OP_ARGUMENTS_H_
