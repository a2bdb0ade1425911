// Vector arithmetic of the CPU ops: one thread, one contiguous range or row, any element type.
//
// The functions are in kernels_elementwise.cc, _rows.cc, _products.cc and _random.cc, compiled once for each
// instruction set and chosen at run time (Highway). Arithmetic is fp32 whatever the storage; bf16 and fp16 are rounded
// as ToBF16 and ToF16 do. An element's value depends on its inputs alone: the last few elements of a range go through
// the same vector code as the others, so a range cut in two gives the same bits. The order of a sum depends on the
// row's length alone. To add a kernel: declare it here, write it in one of those files, and export it at that file's
// end.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_KERNELS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_KERNELS_H_

#include <cstdint>

#include "worker/device/ops.h"

namespace zerofleet::device::kernels {

// --- Element-wise; names as in ops.h.
void Gelu(int64_t count, Tensor x, Tensor y);
void GeluGradient(int64_t count, Tensor x, Tensor dy, Tensor dx);
void Add(int64_t count, Tensor a, Tensor b, Tensor y);
// to = factor * from, or with `add` to += factor * from.
void AddScaled(int64_t count, Tensor from, float factor, bool add, Tensor to);
// y = silu(gate) * up, and its gradients.
void Gate(int64_t count, Tensor gate, Tensor up, Tensor y);
void GateGradient(int64_t count, Tensor gate, Tensor up, Tensor dy, Tensor dgate, Tensor dup);
// Turns a head of 2 * half elements in place by the angles, or with `back` by their negatives.
void RotateHead(int64_t half, const float* cosines, const float* sines, bool back, Tensor head);
void Convert(int64_t count, Tensor from, Tensor to);
void Accumulate(int64_t count, Tensor from, float* accumulator);
// Element i is added to running sum i % 16, in double; the sixteen sums are added in order. The same bits on every
// instruction set.
double SumSquares(int64_t count, Tensor x);

void AdamW(int64_t count, const UpdateFactors& factors, bool decay, Tensor gradient, float* master, float* exp_avg,
           float* exp_avg_sq, Tensor parameter);
void Sgd(int64_t count, const UpdateFactors& factors, bool decay, Tensor gradient, float* master, float* momentum,
         Tensor parameter);
// As the ops of these names, for a step that is not skipped; without decay `decay` is 1.
void MuonDirection(int64_t count, const UpdateFactors& factors, bool ahead, Tensor gradient, float* momentum,
                   Tensor to);
void MuonMove(int64_t count, float decay, float scale, const float* direction, const float* from, Tensor to);
// average += share * (weights - average), computed from the nearer end, as torch.lerp does.
void Average(int64_t count, float share, const float* weights, float* average);

// --- Rows.
void LayerNormRow(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor beta, Tensor y, float* mean, float* rstd);
void RmsNormRow(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor y, float* rstd);
// row = softmax(scale * row) in place; returns log of the sum of exp(scale * row). A NaN anywhere makes all NaN.
float SoftmaxRow(int64_t count, float scale, float* row);
// -log softmax(logits)[target]; overwrites logits. `gradient`, unless it is null, becomes gradient_scale * (softmax -
// onehot(target)), and *kept (which may be null) what LogitsGradientRow needs to compute that again. `gradient` may be
// the logits themselves.
double CrossEntropyRow(int64_t vocab, int64_t target, Tensor gradient, float gradient_scale, float* logits,
                       LogitsGradient* kept = nullptr);
// row becomes exp(row - largest) * factor.
void LogitsGradientRow(int64_t count, const LogitsGradient& gradient, float* row);
// row becomes exp(row - *largest), where *largest is set to its largest element; returns the sum. A NaN anywhere makes
// the sum NaN.
float ExpFromLargest(int64_t count, float* row, float* largest);
void Scale(int64_t count, float factor, float* row);
// scores becomes p = exp(scale * scores - logsumexp); dp becomes the scores' gradient p * (dp - delta) * scale.
void AttentionGradientRow(int64_t count, float scale, float logsumexp, float delta, float* scores, float* dp);
float Dot(int64_t count, const float* a, const float* b);

// --- Products of one vector with a (rows, k) matrix of `w`'s type.
// y(rows) = w x; `x` has w's type. A row's sum does not depend on the other rows.
void RowDots(int64_t rows, int64_t k, Tensor x, Tensor w, float* y);
// y(k) = sum over rows of weights[row] * w(row), in the order of the rows.
void WeightedRows(int64_t rows, int64_t k, const float* weights, Tensor w, float* y);

// Columns per task where tasks add up the rows of a matrix.
inline constexpr int64_t kColumnBlock = 128;

// --- A few consecutive rows of c elements. Sums over rows are added to the result, row after row.
// dx += the gradient through a layer norm; dgamma += dy * (x - mean) * rstd, dbeta += dy.
void LayerNormRowsGradient(int64_t rows, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* mean,
                           const float* rstd, Tensor dx, float* dgamma, float* dbeta);
// dx += the gradient through an RMS norm; dgamma += dy * x * rstd.
void RmsNormRowsGradient(int64_t rows, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* rstd, Tensor dx,
                         float* dgamma);
// Only RmsNormRowsGradient's dgamma, for c columns of rows that are `stride` apart.
void RmsNormColumns(int64_t rows, int64_t stride, int64_t c, Tensor dy, Tensor x, const float* rstd, float* dgamma);
// sums += x; rows are `stride` apart.
void SumRows(int64_t rows, int64_t stride, int64_t c, Tensor x, float* sums);

// Elements first to first + count - 1 of the stream of normal numbers (random_normal.h).
void FillNormal(int64_t count, uint64_t seed, uint64_t stream_id, uint64_t first, double deviation, float* to);

// The name of the instruction set in use.
const char* TargetName();

}  // namespace zerofleet::device::kernels

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_KERNELS_H_
