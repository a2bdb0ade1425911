// See matmul.h.
//
// A product's description and algorithm are looked up once and cached, keyed by everything the choice may depend on:
// sizes, strides, types, orientations, epilogue and the alignment of each pointer. A model has a few dozen products, so
// the table stays small. Caching the algorithm also fixes the order of summation for the rest of the run.
//
// A part of a product, some of its rows or columns, runs with the whole product's algorithm: what an algorithm adds up
// for an element, and in which order, follows from its tile and its split of K, not from the number of elements.
#include "worker/device/cuda/matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/libraries/vendor_library.h"

namespace zerofleet::device::cuda {
namespace {

// The alignment that is stated for every matrix: what the widest loads and the copy engines need. cuBLASLt assumes 256
// by default; with this value its choice does not depend on where ZeRO's stages place a matrix. For bias and aux
// cuBLASLt inspects the addresses themselves, so it is queried with addresses aligned to exactly this; the real
// addresses are set at the launch.
constexpr uintptr_t kStatedAlignment = 16;
constexpr uintptr_t kWorkspaceAlignment = 256;
// The leading dimension of GELU's input in an epilogue must be a multiple of this (cublasLt.h, EPILOGUE_AUX_LD).
constexpr int64_t kAuxStrideUnit = 8;

// Split-K is allowed in one form only. COMPUTE_TYPE writes each part's fp32 sums to the workspace and adds them in a
// second kernel, in an order that the algorithm fixes. INPLACE adds the parts to the output one after another; the
// library promises that they take turns, but not their order. OUTPUT_TYPE rounds the parts to the output's type before
// they are added, which is not fp32 accumulation. NONE (no split) is zero and so in every mask.
constexpr uint32_t kReductionSchemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

absl::Status LibraryStatus(cublasStatus_t code, const char* function) {
  if (code == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message =
      absl::StrCat(function, ": ", cublasLtGetStatusString(code), " (", cublasLtGetStatusName(code), ")");
  switch (code) {
    case CUBLAS_STATUS_ALLOC_FAILED: return absl::ResourceExhaustedError(message);
    case CUBLAS_STATUS_NOT_INITIALIZED:
    case CUBLAS_STATUS_ARCH_MISMATCH: return absl::FailedPreconditionError(message);
    default: return absl::InternalError(message);
  }
}

cudaDataType_t LibraryType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return CUDA_R_32F;
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF16: return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

cublasLtEpilogue_t LibraryEpilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone: return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kGeluSlope: return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// The largest power of two, up to kStatedAlignment, that divides the address; kStatedAlignment for null.
uint32_t Alignment(const void* data) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(data) | kStatedAlignment;
  return static_cast<uint32_t>(address & (~address + 1));
}

// An address of exactly this alignment, which the library inspects but does not read.
void* AddressAligned(uint32_t alignment) { return reinterpret_cast<void*>((uintptr_t{1} << 32) + alignment); }

bool HasAux(Epilogue epilogue) { return epilogue == Epilogue::kGeluSlope; }

// c, or d where there is no c: beta is 0 then, and the library does not read it.
const Matrix& Addend(const MatmulArguments& p) { return p.c.data ? p.c : p.d; }

void Check(const MatmulArguments& p) {
  const DType input = p.a.data.dtype, output = p.d.data.dtype;
  ZF_CHECK(p.m > 0);
  ZF_CHECK(p.n > 0);
  ZF_CHECK(p.k > 0);
  ZF_CHECK(p.b.data.dtype == input);
  ZF_CHECK(output == input || output == DType::kF32);
  ZF_CHECK(p.a.stride >= (p.a.transposed ? p.m : p.k));
  ZF_CHECK(p.b.stride >= (p.b.transposed ? p.k : p.n));
  ZF_CHECK(p.d.stride >= p.n);
  ZF_CHECK(!p.c.transposed);
  ZF_CHECK(!p.d.transposed);
  ZF_CHECK(Addend(p).data.dtype == output);
  ZF_CHECK(Addend(p).stride >= p.n);
  ZF_CHECK(p.c.data.data != p.d.data.data || p.c.stride == p.d.stride);
  ZF_CHECK(!HasAux(p.epilogue) || !p.c.data);
  ZF_CHECK(!HasAux(p.epilogue) || p.aux.data.dtype == output);
  ZF_CHECK(!HasAux(p.epilogue) || p.aux.stride >= p.n);
  ZF_CHECK(!p.bias || p.bias.dtype == output);
  ZF_CHECK(p.bias || p.epilogue != Epilogue::kBias);
}

// Describes `matrix` in cuBLASLt's layout: a row-major matrix here is its transpose there, in column-major order.
cublasStatus_t InitLayout(cublasLtMatrixLayoutOpaque_t& layout, const Matrix& matrix, int64_t rows, int64_t columns) {
  if (matrix.transposed) std::swap(rows, columns);
  return cublasLtMatrixLayoutInit(&layout, LibraryType(matrix.data.dtype), static_cast<uint64_t>(columns),
                                  static_cast<uint64_t>(rows), matrix.stride);
}

template <typename T>
absl::Status Set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, T value) {
  return LibraryStatus(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof value),
                       "cublasLtMatmulDescSetAttribute");
}

template <typename T>
absl::Status Set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
                 T value) {
  return LibraryStatus(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
                       "cublasLtMatmulPreferenceSetAttribute");
}

absl::Status SetPointers(cublasLtMatmulDescOpaque_t& operation, const MatmulArguments& p, const void* bias, void* aux) {
  if (p.bias) ZF_RETURN_IF_ERROR(Set<const void*>(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  if (!HasAux(p.epilogue)) return absl::OkStatus();
  return Set<void*>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
}

absl::Status DescribeOperation(const MatmulArguments& p, cublasLtMatmulDescOpaque_t& operation) {
  // The types of bias and aux are left at their default, which is d's type.
  ZF_RETURN_IF_ERROR(
      LibraryStatus(cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescInit"));
  ZF_RETURN_IF_ERROR(Set<int32_t>(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  ZF_RETURN_IF_ERROR(Set<int32_t>(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
  ZF_RETURN_IF_ERROR(Set<uint32_t>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, LibraryEpilogue(p.epilogue)));
  if (HasAux(p.epilogue)) {
    ZF_RETURN_IF_ERROR(Set<int64_t>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.aux.stride));
  }
  return absl::OkStatus();
}

std::string NoAlgorithm(const MatmulArguments& p) {
  return absl::StrCat("cuBLASLt has no algorithm for a ", DTypeName(p.a.data.dtype), " product of m ", p.m, ", n ", p.n,
                      ", k ", p.k, " into ", DTypeName(p.d.data.dtype));
}

}  // namespace

const char* EpilogueName(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone: return "none";
    case Epilogue::kBias: return "bias";
    case Epilogue::kGeluSlope: return "GELU slope";
  }
  return "";
}

struct Matmul::Key {
  std::array<int64_t, 10> sizes;  // m, n, k, the whole product's m and n, and the strides
  std::array<uint32_t, 6> alignments;
  DType input, output;
  Epilogue epilogue;
  bool a_transposed, b_transposed, has_bias;

  explicit Key(const MatmulArguments& p)
      : sizes{p.m, p.n, p.k, p.whole_m, p.whole_n, p.a.stride, p.b.stride, Addend(p).stride, p.d.stride, p.aux.stride},
        alignments{Alignment(p.a.data.data), Alignment(p.b.data.data), Alignment(Addend(p).data.data),
                   Alignment(p.d.data.data), Alignment(p.bias.data),   Alignment(p.aux.data.data)},
        input(p.a.data.dtype),
        output(p.d.data.dtype),
        epilogue(p.epilogue),
        a_transposed(p.a.transposed),
        b_transposed(p.b.transposed),
        has_bias(p.bias) {}

  auto Parts() const {
    return std::tie(sizes, alignments, input, output, epilogue, a_transposed, b_transposed, has_bias);
  }
  bool operator==(const Key& other) const { return Parts() == other.Parts(); }
  template <typename H>
  friend H AbslHashValue(H hash, const Key& key) {
    return H::combine(std::move(hash), key.Parts());
  }
};

// The library's view of a product: its A is our b, and its B our a.
struct Matmul::Plan {
  cublasLtMatmulDescOpaque_t operation = {};
  cublasLtMatrixLayoutOpaque_t a = {}, b = {}, c = {}, d = {};
  cublasLtMatmulAlgo_t algorithm = {};
  bool found = false, launched = false;
};

class Matmul::Plans {
 public:
  std::unordered_map<Key, Plan, absl::Hash<Key>> by_key;
};

absl::StatusOr<std::unique_ptr<Matmul>> Matmul::Create(void* workspace, int64_t workspace_bytes) {
  ZF_CHECK(reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment == 0);
  ZF_RETURN_IF_ERROR(OpenCublasLt());
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t code = cublasLtCreate(&handle);
  if (code != CUBLAS_STATUS_SUCCESS) {
    return absl::FailedPreconditionError(
        absl::StrCat("cuBLASLt cannot be used here: ", LibraryStatus(code, "cublasLtCreate").message()));
  }
  return std::unique_ptr<Matmul>(new Matmul(handle, workspace, workspace_bytes));
}

Matmul::Matmul(cublasLtContext* handle, void* workspace, int64_t workspace_bytes)
    : handle_(handle), workspace_(workspace), workspace_bytes_(workspace_bytes), plans_(std::make_unique<Plans>()) {}

Matmul::~Matmul() { cublasLtDestroy(handle_); }

absl::Status Matmul::Describe(const Key& key, const MatmulArguments& p, Plan& plan) {
  ZF_RETURN_IF_ERROR(DescribeOperation(p, plan.operation));
  ZF_RETURN_IF_ERROR(
      SetPointers(plan.operation, p, AddressAligned(key.alignments[4]), AddressAligned(key.alignments[5])));
  constexpr char kInitLayout[] = "cublasLtMatrixLayoutInit";
  ZF_RETURN_IF_ERROR(LibraryStatus(InitLayout(plan.a, p.b, p.k, p.n), kInitLayout));
  ZF_RETURN_IF_ERROR(LibraryStatus(InitLayout(plan.b, p.a, p.m, p.k), kInitLayout));
  ZF_RETURN_IF_ERROR(LibraryStatus(InitLayout(plan.c, Addend(p), p.m, p.n), kInitLayout));
  return LibraryStatus(InitLayout(plan.d, p.d, p.m, p.n), kInitLayout);
}

absl::Status Matmul::TakeAlgorithm(const MatmulArguments& p, Plan& plan) {
  MatmulArguments of_whole = p;
  of_whole.m = std::exchange(of_whole.whole_m, 0);
  of_whole.n = std::exchange(of_whole.whole_n, 0);
  ZF_ASSIGN_OR_RETURN(const Plan* const whole, PlanOf(of_whole));
  plan.found = whole->found;
  if (!plan.found) return absl::OkStatus();
  plan.algorithm = whole->algorithm;
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t code =
      cublasLtMatmulAlgoCheck(handle_, &plan.operation, &plan.a, &plan.b, &plan.c, &plan.d, &plan.algorithm, &result);
  if (code == CUBLAS_STATUS_NOT_SUPPORTED) {
    return absl::FailedPreconditionError(
        absl::StrCat("cuBLASLt's algorithm for the product of ", of_whole.m, " x ", of_whole.n, " x ", p.k,
                     " does not run its band of ", p.m, " x ", p.n,
                     ", and another would change the bits; set buffers.bucket_bytes: 0"));
  }
  return LibraryStatus(code, "cublasLtMatmulAlgoCheck");
}

absl::StatusOr<Matmul::Plan*> Matmul::PlanOf(const MatmulArguments& p) {
  const Key key(p);
  if (const auto found = plans_->by_key.find(key); found != plans_->by_key.end()) return &found->second;
  Plan plan;
  ZF_RETURN_IF_ERROR(Describe(key, p, plan));
  ZF_RETURN_IF_ERROR(p.whole_m > 0 ? TakeAlgorithm(p, plan) : FindAlgorithm(key, p, plan));
  return &plans_->by_key.emplace(key, plan).first->second;
}

absl::Status Matmul::FindAlgorithm(const Key& key, const MatmulArguments& p, Plan& plan) const {
  cublasLtMatmulPreferenceOpaque_t preference = {};
  ZF_RETURN_IF_ERROR(LibraryStatus(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit"));
  ZF_RETURN_IF_ERROR(
      Set<uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace_bytes_)));
  ZF_RETURN_IF_ERROR(Set<uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductionSchemes));
  // Without these settings the library assumes an alignment of 256.
  ZF_RETURN_IF_ERROR(Set<uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.alignments[1]));
  ZF_RETURN_IF_ERROR(Set<uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.alignments[0]));
  ZF_RETURN_IF_ERROR(Set<uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.alignments[2]));
  ZF_RETURN_IF_ERROR(Set<uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.alignments[3]));

  cublasLtMatmulHeuristicResult_t result = {};
  int results = 0;
  const cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(handle_, &plan.operation, &plan.a, &plan.b, &plan.c,
                                                             &plan.d, &preference, 1, &result, &results);
  plan.found = code == CUBLAS_STATUS_SUCCESS && results == 1 && result.state == CUBLAS_STATUS_SUCCESS;
  plan.algorithm = result.algo;
  // An epilogue that the library refuses, for whatever reason, can run separately from the product.
  const bool refused = code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_ARCH_MISMATCH ||
                       (code == CUBLAS_STATUS_INVALID_VALUE && p.epilogue != Epilogue::kNone);
  return refused ? absl::OkStatus() : LibraryStatus(code, "cublasLtMatmulAlgoGetHeuristic");
}

absl::StatusOr<bool> Matmul::TryRun(Stream& stream, const MatmulArguments& p) {
  if (HasAux(p.epilogue) && p.aux.stride % kAuxStrideUnit != 0) return false;
  CudaStream& cuda_stream = static_cast<CudaStream&>(stream);
  cuda_stream.MakeCurrent();
  ZF_ASSIGN_OR_RETURN(Plan* const planned, PlanOf(p));
  Plan& plan = *planned;
  if (!plan.found) {
    if (p.epilogue != Epilogue::kNone) return false;
    return absl::InternalError(NoAlgorithm(p));
  }
  ZF_RETURN_IF_ERROR(SetPointers(plan.operation, p, p.bias.data, p.aux.data.data));
  const float alpha = 1.0f, beta = p.c.data ? 1.0f : 0.0f;
  const cublasStatus_t code =
      cublasLtMatmul(handle_, &plan.operation, &alpha, p.b.data.data, &plan.a, p.a.data.data, &plan.b, &beta,
                     Addend(p).data.data, &plan.c, p.d.data.data, &plan.d, &plan.algorithm, workspace_,
                     static_cast<size_t>(workspace_bytes_), cuda_stream.handle());
  // The library makes some checks only at the launch. Refusing a product that has run before is a failure, since
  // switching to another algorithm in the middle of a run would change its bits.
  const bool refused = code == CUBLAS_STATUS_NOT_SUPPORTED || code == CUBLAS_STATUS_INVALID_VALUE;
  if (refused && p.epilogue != Epilogue::kNone && !plan.launched) return plan.found = false;
  ZF_RETURN_IF_ERROR(LibraryStatus(code, "cublasLtMatmul"));
  return plan.launched = true;
}

bool Matmul::Run(Stream& stream, const char* op, const MatmulArguments& arguments) {
  Check(arguments);
  MatmulArguments product = arguments;
  if (product.whole_m == 0) product.whole_m = product.m;
  if (product.whole_n == 0) product.whole_n = product.n;
  if (product.whole_m == product.m && product.whole_n == product.n) product.whole_m = product.whole_n = 0;
  const absl::StatusOr<bool> ran = TryRun(stream, product);
  if (ran.ok()) return *ran;
  static_cast<CudaStream&>(stream).Keep(Annotate(ran.status(), op));
  return true;
}

}  // namespace zerofleet::device::cuda
