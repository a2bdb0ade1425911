// Vector arithmetic of the CPU ops: one thread, one contiguous range or row, any element type.
//
// kernels_elementwise.cc, _rows.cc, _products.cc and _random.cc hold them, compiled once for each instruction set and
// chosen at run time (Highway). Arithmetic is fp32 whatever the storage; bf16 and fp16 are rounded as ToBF16 and ToF16
// do. An element's value depends on its inputs alone: the last few elements of a range go through the same vector code
// as the others, so a range cut in two gives the same bits. Sums depend on the length of the row only. To add one:
// declare it here, write it in one of those files, and export it at that file's end.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_KERNELS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_KERNELS_H_

#include <cstdint>

#include "worker/device/ops.h"

namespace zerofleet::device::kernels {

// --- Element-wise; names as in ops.h.
void Gelu(int64_t count, Tensor x, Tensor y);
void GeluGradient(int64_t count, Tensor x, Tensor dy, Tensor dx);
void Add(int64_t count, Tensor a, Tensor b, Tensor y);
// to = factor * from, or added to it.
void AddScaled(int64_t count, Tensor from, float factor, bool add, Tensor to);
// y = silu(gate) * up, and its gradients.
void Gate(int64_t count, Tensor gate, Tensor up, Tensor y);
void GateGradient(int64_t count, Tensor gate, Tensor up, Tensor dy, Tensor dgate, Tensor dup);
// A head of 2 * half elements, turned in place by angles, or `back` by their negatives.
void RotateHead(int64_t half, const float* cosines, const float* sines, bool back, Tensor head);
void Convert(int64_t count, Tensor from, Tensor to);
void Accumulate(int64_t count, Tensor from, float* accumulator);
// Sixteen running sums in double, element i in sum i % 16, added up in order: the same on every instruction set.
double SumSquares(int64_t count, Tensor x);

void AdamW(int64_t count, const UpdateFactors& factors, bool decay, Tensor gradient, float* master, float* exp_avg,
           float* exp_avg_sq, Tensor parameter);
void Sgd(int64_t count, const UpdateFactors& factors, bool decay, Tensor gradient, float* master, float* momentum,
         Tensor parameter);
// average += share * (weights - average), from the nearer end.
void Average(int64_t count, float share, const float* weights, float* average);

// --- Rows.
void LayerNormRow(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor beta, Tensor y, float* mean, float* rstd);
void RmsNormRow(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor y, float* rstd);
// row = softmax(scale * row) in place; returns log of the sum of exp(scale * row). A NaN anywhere makes all NaN.
float SoftmaxRow(int64_t count, float scale, float* row);
// -log softmax(logits)[target]; with `gradient`, logits becomes gradient_scale * (softmax - onehot(target)), and *kept,
// which may be null, what makes it so again.
double CrossEntropyRow(int64_t vocab, int64_t target, bool gradient, float gradient_scale, float* logits,
                       LogitsGradient* kept = nullptr);
// row becomes exp(row - largest) * factor.
void LogitsGradientRow(int64_t count, const LogitsGradient& gradient, float* row);
// row becomes exp(row - its largest), which goes to *largest; returns the sum. A NaN anywhere makes the sum NaN.
float ExpFromLargest(int64_t count, float* row, float* largest);
void Scale(int64_t count, float factor, float* row);
// scores becomes p = exp(scale * scores - logsumexp); dp becomes the scores' gradient p * (dp - delta) * scale.
void AttentionGradientRow(int64_t count, float scale, float logsumexp, float delta, float* scores, float* dp);
float Dot(int64_t count, const float* a, const float* b);

// --- Products of one vector with a (rows, k) matrix of `w`'s type.
// y(rows) = w x; `x` is of the same type. A row's sum does not depend on the others.
void RowDots(int64_t rows, int64_t k, Tensor x, Tensor w, float* y);
// y(k) = sum over rows of weights[row] * w(row), in their order.
void WeightedRows(int64_t rows, int64_t k, const float* weights, Tensor w, float* y);

// Columns that one task takes of a matrix whose rows it adds.
inline constexpr int64_t kColumnBlock = 128;

// --- A few consecutive rows of c elements, whose sums over rows are added to what is there, row after row.
// dx += the gradient through a norm; dgamma += dy * (x - mean) * rstd, dbeta += dy.
void LayerNormRowsGradient(int64_t rows, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* mean,
                           const float* rstd, Tensor dx, float* dgamma, float* dbeta);
// dgamma += dy * x * rstd.
void RmsNormRowsGradient(int64_t rows, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* rstd, Tensor dx,
                         float* dgamma);
// The second of both alone; rows are `stride` apart.
void RmsNormColumns(int64_t rows, int64_t stride, int64_t c, Tensor dy, Tensor x, const float* rstd, float* dgamma);
// sums += x; rows are `stride` apart.
void SumRows(int64_t rows, int64_t stride, int64_t c, Tensor x, float* sums);

// Elements `first` to first + count of the normal numbers of random_normal.h.
void FillNormal(int64_t count, uint64_t seed, uint64_t stream_id, uint64_t first, double deviation, float* to);

// The name of the instruction set in use.
const char* TargetName();

}  // namespace zerofleet::device::kernels

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_KERNELS_H_
