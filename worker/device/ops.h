// The typed ops a transformer needs, forward and backward, as every device implements them.
//
// Legend: B sequences, T positions, M = B*T tokens, C hidden, H heads, D = C/H, V vocabulary, K/N matrix sides.
// Matrices are dense and row-major. `Tensor` arguments carry their element type: activations and parameters are the
// compute type (fp32, bf16 or fp16), all of one type within a call unless noted; gradients of parameters are always
// fp32. Arithmetic and accumulation are fp32 whatever the storage. Every op is deterministic: the same input gives the
// same bits on every run, with any number of threads. Pointers are device pointers, borrowed for the call. Scratch
// memory is passed in by the caller; the *ScratchBytes functions say how much.
#ifndef ZEROFLEET_WORKER_DEVICE_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_OPS_H_

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "worker/device/device.h"
#include "worker/device/dtype.h"
#include "worker/device/op_arguments.h"
#include "worker/device/refused_shape.h"
#include "worker/device/step_control.h"
#include "worker/device/tensor.h"

namespace zerofleet::device {

class BandOps;
class CacheOps;
class LlamaOps;
class VocabularyOps;

class Ops {
 public:
  virtual ~Ops() = default;

  // --- Linear layers. Weights are (N, K): out by in.

  // y(M,N) = x(M,K) w^T + bias(N) + residual(M,N); bias and residual may be null.
  virtual void LinearForward(Stream&, const LinearForwardArguments&) = 0;
  // before(M,N) = x(M,K) w^T + bias(N), y(M,N) = gelu(before as stored), so that GeluForward gives the same bits again.
  virtual void LinearGeluForward(Stream&, const LinearGeluForwardArguments&) = 0;
  // dx(M,K) = dy(M,N) w, overwritten.
  virtual void LinearBackwardInput(Stream&, const LinearBackwardInputArguments&) = 0;
  // dbefore(M,K) = (dy(M,N) w) * gelu'(before(M,K)): through this layer and the GELU whose output it took.
  virtual void LinearBackwardInputGelu(Stream&, const LinearBackwardInputGeluArguments&) = 0;
  // dw(N,K) += dy^T x and dbias(N) += column sums of dy, both fp32; dbias may be null. Or, with `written` in place of
  // dw: written(N,K) = dy^T x, summed in fp32 and rounded once.
  virtual void LinearBackwardWeight(Stream&, const LinearBackwardWeightArguments&) = 0;

  // --- Element-wise. GELU is the tanh approximation (Hendrycks and Gimpel 2016), as GPT-2 uses it.

  virtual void GeluForward(Stream&, int64_t count, Tensor x, Tensor y) = 0;
  // Columns of a matrix, times a factor, replace those of another matrix or are added to them.
  virtual void Columns(Stream&, const ColumnsArguments&) = 0;

  // --- Layer norm over the last axis (C); mean and rstd are fp32 (M), written by the forward, read by the backward.

  virtual void LayerNormForward(Stream&, const LayerNormForwardArguments&) = 0;
  // dx(M,C) += the gradient through the norm (the residual path's gradient is already in dx); dgamma(C), dbeta(C) +=
  // theirs.
  virtual void LayerNormBackward(Stream&, const LayerNormBackwardArguments&) = 0;

  // --- Causal self-attention. qkv is (B,T,(H+2G)D): queries of H heads, keys and values of G, side by side, heads
  // contiguous in each; H/G consecutive heads of queries share one of keys and values. Scores are scaled by 1/sqrt(D).
  // Never holds more than one tile of scores per thread.

  // out(B,T,HD); logsumexp(B,H,T) fp32 is kept for the backward.
  virtual void AttentionForward(Stream&, const AttentionForwardArguments&) = 0;
  // dqkv(B,T,(H+2G)D) overwritten; what the query heads of a group add to dk and dv is added up in the order of the
  // heads.
  virtual void AttentionBackward(Stream&, const AttentionBackwardArguments&) = 0;
  // Bytes that the forward or the backward needs, whichever is more, for all threads together.
  virtual int64_t AttentionScratchBytes(const AttentionShape&) const = 0;

  // --- Embeddings.

  // x(M,C) = wte[token] + wpe[position], or wte[token] alone where wpe is null; tokens (B,T) int32, each in [0, V),
  // checked by the data source.
  virtual void EmbeddingForward(Stream&, const EmbeddingForwardArguments&) = 0;
  // Adds dx to dwte(V,C) and, unless it is null, to dwpe(T_max,C): fp32, in token order.
  virtual void EmbeddingBackward(Stream&, const EmbeddingBackwardArguments&) = 0;

  // --- Output head with softmax cross-entropy, fused and chunked over tokens so that at most
  // CrossEntropyScratchBytes of logits exist at once.

  // *loss_sum = sum over M tokens of -log softmax(x w^T)[target], in nats, accumulated in double (a device pointer). A
  // token whose target is -1 has no loss and no gradient.
  // If dx is set, the backward runs too: dx(M,C) = and dw(V,C) += gradients of loss_sum * *gradient_scale (a device
  // pointer too, since the loss scale is decided there).
  virtual void CrossEntropy(Stream&, const CrossEntropyArguments&) = 0;
  virtual int64_t CrossEntropyScratchBytes(int64_t m, int64_t c, int64_t vocab, DType dtype) const = 0;

  // --- Embeddings and output head for a part of the vocabulary (vocabulary_ops.h).
  virtual VocabularyOps& vocabulary() = 0;

  // --- Gradients of parameters in bands of rows (band_ops.h).
  virtual BandOps& bands() = 0;

  // --- Ops that only the Llama family needs (llama_ops.h).
  virtual LlamaOps& llama() = 0;

  // --- Attention to keys and values that are kept (cache_ops.h).
  virtual CacheOps& cache() = 0;

  // --- Flat vectors, for ZeRO.

  // to = from, converted; in place is allowed when `to` is not wider than `from` and both start at one address.
  virtual void Convert(Stream&, int64_t count, Tensor from, Tensor to) = 0;
  // accumulator += from, in fp32.
  virtual void Accumulate(Stream&, int64_t count, Tensor from, float* accumulator) = 0;
  // *sum = sum of squares, in double, in an order that depends on `count` alone.
  virtual void SumSquares(Stream&, int64_t count, Tensor x, double* sum) = 0;
  // *sum = the sum without rounding of BlockOfSquares (exact_sum.h) over x, normalized. x[0] is element `place` of a
  // vector that is cut into blocks of kSquaresTogether, so x's first and last block may be shorter. The same bits on
  // every device.
  virtual void SumSquaresExactly(Stream&, int64_t count, const float* x, int64_t place, ExactSum* sum) = 0;
  virtual void Zero(Stream&, void* data, int64_t bytes) = 0;
  virtual void Fill(Stream&, int64_t count, float value, float* to) = 0;
  // AdamW (Loshchilov and Hutter 2019) with decoupled decay, as PyTorch applies it, over the segments' elements:
  // master, exp_avg and exp_avg_sq (fp32) are updated in place from gradient, then parameter = master converted.
  // Factors, and whether to do anything at all, come from `control` on the device. parameter.data may be master itself
  // when it is fp32.
  virtual void AdamW(Stream&, const AdamWArguments&) = 0;
  // As AdamW, but by SGD with momentum as torch.optim.SGD computes it without dampening and without Nesterov's variant:
  // where a segment decays, weight_decay * master is added to the clipped gradient (L2, coupled); momentum = momentum *
  // factor + gradient; master -= learning rate * momentum.
  virtual void Sgd(Stream&, const SgdArguments&) = 0;
  // The two ends of Muon's update of a matrix (Jordan et al. 2024), as torch.optim.Muon computes them with Nesterov's
  // variant. Before Newton-Schulz: momentum += (1 - factor) * (clipped gradient - momentum), and to = the clipped
  // gradient + factor * (momentum - clipped gradient). After it: to = decay * from - scale * direction. Both do nothing
  // if the step is skipped.
  virtual void MuonDirection(Stream&, const MuonDirectionArguments&) = 0;
  virtual void MuonMove(Stream&, const MuonMoveArguments&) = 0;
  // x /= max(sqrt(*squares), least), where *squares, on the device, is what SumSquares gave for x.
  virtual void DivideByNorm(Stream&, int64_t count, const double* squares, double least, float* x) = 0;
  // to = from, in fp32, unless the step is skipped.
  virtual void Assign(Stream&, const AssignArguments&) = 0;
  // average += average_share * (weights - average), as torch.lerp has it, unless the step is skipped.
  virtual void Average(Stream&, const AverageArguments&) = 0;
  // to[i] = a normal number of mean 0 and deviation `deviation`, from a counter-based generator: it depends only on
  // (seed, stream_id, first + i), so any rank can fill any range.
  virtual void FillNormal(Stream&, const FillNormalArguments&) = 0;

  // --- The step's own numbers (step_control.h). They stay on the device, so that the host need not wait for them.

  // Sets control->gradient_scale for the backward passes of a step.
  virtual void BeginStep(Stream&, double tokens, StepControl* control) = 0;
  // *mine = the sums of `losses` and `squares`, each in order, and `flags`.
  virtual void SumScalars(Stream&, const SumScalarsArguments&) = 0;
  // Adds up the ranks' scalars in order and decides clipping, the update's factors and the next loss scale.
  virtual void DecideStep(Stream&, const StepScalars* ranks, int64_t count, const StepRule& rule,
                          StepControl* control) = 0;
  // As SumScalars and DecideStep, with sums without rounding.
  virtual void SumExactScalars(Stream&, const SumExactScalarsArguments&) = 0;
  virtual void DecideStep(Stream&, const ExactScalars* ranks, int64_t count, const StepRule& rule,
                          StepControl* control) = 0;

  // --- Shapes that run slowly.

  // Shapes that this backend's libraries have refused since the last call, each once in the ops' lifetime. A backend
  // without such libraries has none.
  virtual std::vector<RefusedShape> TakeRefusedShapes() { return {}; }

  // --- Measurement.

  // FLOP/s of a large matmul in this compute type on all of this device's threads, best of `rounds`.
  virtual double MeasureGemmPeak(DType dtype, int rounds) = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_OPS_H_
