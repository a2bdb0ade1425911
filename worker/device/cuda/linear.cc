// Linear layers (ops.h): products by cuBLASLt, with bias, residual and GELU's slope in their epilogues.
//
// Where the library has no algorithm with an epilogue (fp32 without tensor cores, odd widths, older GPUs), the product
// runs alone and a kernel of linear_kernels.h finishes it. GELU itself is always our own kernel, applied to the stored
// input: the library's epilogue applies it before the input is rounded, so a backward that has only the stored input
// would not get the same bits again. In fp32 the slope is our own kernel too: the library uses the GPU's approximate
// tanh, accurate to 2^-11, an error that only rounding to half types hides.
#include "absl/strings/str_cat.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/linear_kernels.h"
#include "worker/device/cuda/matmul.h"

namespace zerofleet::device::cuda {
namespace {

// y(M,N) = x(M,K) w^T.
MatmulArguments ForwardProduct(int64_t m, int64_t n, int64_t k, Tensor x, Tensor w, Tensor y) {
  return {.m = m, .n = n, .k = k, .a = {x, k}, .b = {w, k, /*transposed=*/true}, .d = {y, n}};
}

// dx(M,K) = dy(M,N) w.
MatmulArguments BackwardProduct(int64_t m, int64_t n, int64_t k, Tensor dy, Tensor w, Tensor dx) {
  return {.m = m, .n = k, .k = n, .a = {dy, n}, .b = {w, k}, .d = {dx, k}};
}

bool FusesGeluSlope(DType dtype) { return dtype != DType::kF32; }

}  // namespace

bool CudaOps::RunFused(Stream& stream, const char* op, const MatmulArguments& product) {
  if (matmul_->Run(stream, op, product)) return true;
  refused_shapes_.Note(
      {op, absl::StrCat(DTypeName(product.a.data.dtype), ", m ", product.m, ", n ", product.n, ", k ", product.k),
       absl::StrCat("cuBLASLt has no algorithm with the epilogue ", EpilogueName(product.epilogue))});
  return false;
}

void CudaOps::RunWithBias(Stream& stream, const char* op, MatmulArguments product, Tensor bias) {
  if (bias) {
    product.epilogue = Epilogue::kBias;
    product.bias = bias;
    if (RunFused(stream, op, product)) return;
  }
  product.epilogue = Epilogue::kNone;
  product.bias = {};
  matmul_->Run(stream, op, product);
  if (bias) AddBias(stream, op, product.m, product.n, bias, product.d.data);
}

void CudaOps::LinearForward(Stream& stream, const LinearForwardArguments& p) {
  MatmulArguments product = ForwardProduct(p.m, p.n, p.k, p.x, p.w, p.y);
  if (p.residual) product.c = {p.residual, p.n};
  RunWithBias(stream, "LinearForward", product, p.bias);
}

void CudaOps::LinearGeluForward(Stream& stream, const LinearGeluForwardArguments& p) {
  RunWithBias(stream, "LinearGeluForward", ForwardProduct(p.m, p.n, p.k, p.x, p.w, p.before), p.bias);
  GeluForward(stream, p.m * p.n, p.before, p.y);
}

void CudaOps::LinearBackwardInput(Stream& stream, const LinearBackwardInputArguments& p) {
  matmul_->Run(stream, "LinearBackwardInput", BackwardProduct(p.m, p.n, p.k, p.dy, p.w, p.dx));
}

void CudaOps::LinearBackwardInputGelu(Stream& stream, const LinearBackwardInputGeluArguments& p) {
  constexpr char kOp[] = "LinearBackwardInputGelu";
  MatmulArguments product = BackwardProduct(p.m, p.n, p.k, p.dy, p.w, p.dbefore);
  product.epilogue = Epilogue::kGeluSlope;
  product.aux = {p.before, p.k};
  if (FusesGeluSlope(p.dy.dtype) && RunFused(stream, kOp, product)) return;
  matmul_->Run(stream, kOp, BackwardProduct(p.m, p.n, p.k, p.dy, p.w, p.dbefore));
  MultiplyByGeluSlope(stream, kOp, p.m * p.k, p.before, p.dbefore);
}

void CudaOps::LinearBackwardWeight(Stream& stream, const LinearBackwardWeightArguments& p) {
  LinearBackwardWeightBand(stream, p, {0, p.n});
}

// cuBLASLt can make the bias gradient in the product's epilogue, and then gives up a third of the product's rate: on an
// H100 460 TFLOP/s in place of 690 for gpt2-124m's qkv, 530 in place of 790 for gpt2-1558m's fc. Reading dy once more
// costs less in most layers: both together, gpt2-1558m's qkv, projection, fc and out went from 546, 539, 527 and 638
// TFLOP/s to 562, 504, 600 and 678.
void CudaOps::LinearBackwardWeightBand(Stream& stream, const LinearBackwardWeightArguments& p, const RowBand& band) {
  constexpr char kOp[] = "LinearBackwardWeight";
  const Matrix gradient = {p.gradient(), p.k};
  matmul_->Run(stream, kOp,
               {.m = band.count,
                .n = p.k,
                .k = p.m,
                .a = {p.dy.Offset(band.first), p.n, /*transposed=*/true},
                .b = {p.x, p.k},
                .c = p.written ? Matrix{} : gradient,
                .d = gradient,
                .whole_m = p.n});
  if (p.dbias != nullptr) AddColumnSums(stream, kOp, p.m, p.n, band, p.dy, workspace_.partials<float>(), p.dbias);
}

}  // namespace zerofleet::device::cuda
