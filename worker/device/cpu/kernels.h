// Vector arithmetic of the CPU ops: one thread, one contiguous range or row, any element type.
//
// kernels_elementwise.cc, kernels_rows.cc and kernels_products.cc hold them, compiled once for each instruction set and
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

// --- Rows.
void LayerNormRow(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor beta, Tensor y, float* mean, float* rstd);
void LayerNormRowGradient(int64_t c, Tensor dy, Tensor x, Tensor gamma, float mean, float rstd, Tensor dx);
void RmsNormRow(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor y, float* rstd);
void RmsNormRowGradient(int64_t c, Tensor dy, Tensor x, Tensor gamma, float rstd, Tensor dx);
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

// --- Columns [begin, end), at most kColumnBlock of them, of an (m, stride) matrix, added over its rows.
inline constexpr int64_t kColumnBlock = 128;
// sums[j] += sum over rows of dy(row, j).
void ColumnSums(int64_t m, int64_t stride, int64_t begin, int64_t end, Tensor dy, float* sums);
// dgamma[j] += sum of dy * (x - mean) * rstd, dbeta[j] += sum of dy.
void LayerNormColumns(int64_t m, int64_t stride, int64_t begin, int64_t end, Tensor dy, Tensor x, const float* mean,
                      const float* rstd, float* dgamma, float* dbeta);

// dgamma[j] += sum of dy * x * rstd.
void RmsNormColumns(int64_t m, int64_t stride, int64_t begin, int64_t end, Tensor dy, Tensor x, const float* rstd,
                    float* dgamma);

// The name of the instruction set in use.
const char* TargetName();

}  // namespace zerofleet::device::kernels

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_KERNELS_H_
