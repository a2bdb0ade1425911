// Linear layers (ops.h): products of cuBLASLt, with bias, residual, GELU and bias gradient in their epilogues.
//
// Where the library has no algorithm with an epilogue (fp32 without tensor cores, odd widths, older GPUs), the product
// runs alone and a kernel of linear_kernels.h finishes it. GELU in fp32 is always our own: the library's uses the GPU's
// approximate tanh, accurate to 2^-11, an error that only rounding to half types hides.
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/linear_kernels.h"
#include "worker/device/cuda/matmul.h"

namespace zerofleet::cuda {
namespace {

// y = product + bias; bias may be null.
void RunWithBias(Matmul& matmul, Stream& stream, const char* op, MatmulArguments product, Tensor bias) {
  if (bias) {
    product.epilogue = Epilogue::kBias;
    product.bias = bias;
    if (matmul.Run(stream, op, product)) return;
  }
  product.epilogue = Epilogue::kNone;
  product.bias = {};
  matmul.Run(stream, op, product);
  if (bias) AddBias(stream, op, product.m, product.n, bias, product.d.data);
}

// y(M,N) = x(M,K) w^T.
MatmulArguments ForwardProduct(int64_t m, int64_t n, int64_t k, Tensor x, Tensor w, Tensor y) {
  return {.m = m, .n = n, .k = k, .a = {x, k}, .b = {w, k, /*transposed=*/true}, .d = {y, n}};
}

// dx(M,K) = dy(M,N) w.
MatmulArguments BackwardProduct(int64_t m, int64_t n, int64_t k, Tensor dy, Tensor w, Tensor dx) {
  return {.m = m, .n = k, .k = n, .a = {dy, n}, .b = {w, k}, .d = {dx, k}};
}

bool FusesGelu(DType dtype) { return dtype != DType::kF32; }

}  // namespace

void CudaOps::LinearForward(Stream& stream, int64_t m, int64_t n, int64_t k, Tensor x, Tensor w, Tensor bias,
                            Tensor residual, Tensor y) {
  MatmulArguments product = ForwardProduct(m, n, k, x, w, y);
  if (residual) product.c = {residual, n};
  RunWithBias(*matmul_, stream, "LinearForward", product, bias);
}

void CudaOps::LinearGeluForward(Stream& stream, int64_t m, int64_t n, int64_t k, Tensor x, Tensor w, Tensor bias,
                                Tensor before, Tensor y) {
  constexpr char kOp[] = "LinearGeluForward";
  MatmulArguments product = ForwardProduct(m, n, k, x, w, y);
  product.epilogue = Epilogue::kGelu;
  product.bias = bias;
  product.aux = {before, n};
  if (FusesGelu(y.dtype) && matmul_->Run(stream, kOp, product)) return;
  RunWithBias(*matmul_, stream, kOp, ForwardProduct(m, n, k, x, w, before), bias);
  GeluForward(stream, m * n, before, y);
}

void CudaOps::LinearBackwardInput(Stream& stream, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor w, Tensor dx) {
  matmul_->Run(stream, "LinearBackwardInput", BackwardProduct(m, n, k, dy, w, dx));
}

void CudaOps::LinearBackwardInputGelu(Stream& stream, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor w,
                                      Tensor before, Tensor dbefore) {
  constexpr char kOp[] = "LinearBackwardInputGelu";
  MatmulArguments product = BackwardProduct(m, n, k, dy, w, dbefore);
  product.epilogue = Epilogue::kGeluSlope;
  product.aux = {before, k};
  if (FusesGelu(dy.dtype) && matmul_->Run(stream, kOp, product)) return;
  matmul_->Run(stream, kOp, BackwardProduct(m, n, k, dy, w, dbefore));
  MultiplyByGeluSlope(stream, kOp, m * k, before, dbefore);
}

void CudaOps::LinearBackwardWeight(Stream& stream, int64_t m, int64_t n, int64_t k, Tensor dy, Tensor x, float* dw,
                                   float* dbias) {
  constexpr char kOp[] = "LinearBackwardWeight";
  const Matrix gradient = {{dw, DType::kF32}, k};
  MatmulArguments product = {
      .m = n, .n = k, .k = m, .a = {dy, n, /*transposed=*/true}, .b = {x, k}, .c = gradient, .d = gradient};
  if (dbias == nullptr) {
    matmul_->Run(stream, kOp, product);
    return;
  }
  // The epilogue overwrites its vector, so it gets a vector in the workspace, and the sums are added from there.
  float* const partials = workspace_.partials<float>();
  if (n <= kPartialBytes / static_cast<int64_t>(sizeof(float))) {
    product.epilogue = Epilogue::kBiasGradient;
    product.bias = {partials, DType::kF32};
    if (matmul_->Run(stream, kOp, product)) return Accumulate(stream, n, product.bias, dbias);
  }
  product.epilogue = Epilogue::kNone;
  product.bias = {};
  matmul_->Run(stream, kOp, product);
  AddColumnSums(stream, kOp, m, n, dy, partials, dbias);
}

}  // namespace zerofleet::cuda
