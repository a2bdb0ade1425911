// Matrix products on the GPU, for every op that needs one: the only use of cuBLASLt.
//
// d(m,n) = epilogue(a(m,k) b(k,n) + c(m,n)), row-major, inputs of one type, fp32 accumulation (never tf32). cuBLASLt is
// column-major: a row-major matrix is its transpose there, so d^T = b^T a^T is requested and nothing is copied.
//
// Share of a step's time: one step of gpt2-1558m (C 1600, 48 layers, V 50257) on 16 x 1024 tokens is 1.45e14 FLOP in
// the layers' products and 8e12 in the output head's. At 70% of an H200's 989 TFLOP/s that is 0.22 s. In addition, as
// estimated from FLOPs and bytes, attention takes 0.03 s, norms 0.01 s and AdamW 0.01 s: four fifths of the step are
// spent here, and more than nine tenths here and in attention's own products. Hence the epilogues: an activation of the
// wide layer (M,4C) is 0.2 GB, and each pass over it that an epilogue saves is a tenth of its product's time.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_MATMUL_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_MATMUL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/ops.h"

struct cublasLtContext;

namespace zerofleet::device::cuda {

// A row-major matrix with `stride` elements from row to row. `transposed` means that memory holds the transpose of the
// matrix in the product: rows and columns swap roles in memory, not in m, n and k.
struct Matrix {
  Tensor data = {};
  int64_t stride = 0;
  bool transposed = false;
};

// What happens to s = a b + c on its way to d, in fp32.
enum class Epilogue : uint8_t {
  kNone,       // d = s
  kBias,       // d = s + bias, n values added to each row
  kGeluSlope,  // d = s * gelu'(aux), GELU by the tanh approximation; c is null
};

const char* EpilogueName(Epilogue epilogue);  // "GELU slope"

struct MatmulArguments {
  int64_t m = 0, n = 0, k = 0;
  Matrix a = {}, b = {};
  Matrix c = {};  // same type as d; may be d itself, or null
  Matrix d = {};  // the inputs' type, or fp32; neither c nor d is transposed
  Epilogue epilogue = Epilogue::kNone;
  // The whole product's m and n, where this is a part of its rows or columns and must have the same bits as there; 0:
  // equal to m or n.
  int64_t whole_m = 0, whole_n = 0;
  Tensor bias = {};  // same type as d
  Matrix aux = {};   // (m,n), same type as d
};

class Matmul {
 public:
  // `workspace` is device memory, aligned to 256 bytes, and must outlive this object. Products run on one stream at a
  // time, since they share it. FailedPrecondition where cuBLASLt refuses the machine.
  static absl::StatusOr<std::unique_ptr<Matmul>> Create(void* workspace, int64_t workspace_bytes);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Enqueues the product. False, with nothing enqueued, when cuBLASLt has no algorithm for it with this epilogue: the
  // caller then runs it with kNone and the epilogue separately. A failure, including a missing algorithm for kNone, is
  // kept on the stream under `op`'s name.
  bool Run(Stream& stream, const char* op, const MatmulArguments& arguments);

 private:
  struct Key;
  struct Plan;
  class Plans;

  Matmul(cublasLtContext* handle, void* workspace, int64_t workspace_bytes);
  absl::StatusOr<bool> TryRun(Stream& stream, const MatmulArguments& arguments);
  // The plan for this product, created at its first use.
  absl::StatusOr<Plan*> PlanOf(const MatmulArguments& arguments);
  // Gives the plan of a part of a product the whole product's algorithm.
  absl::Status TakeAlgorithm(const MatmulArguments& arguments, Plan& plan);
  static absl::Status Describe(const Key& key, const MatmulArguments& arguments, Plan& plan);
  absl::Status FindAlgorithm(const Key& key, const MatmulArguments& arguments, Plan& plan) const;

  cublasLtContext* const handle_;
  void* const workspace_;
  const int64_t workspace_bytes_;
  const std::unique_ptr<Plans> plans_;
};

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_MATMUL_H_
