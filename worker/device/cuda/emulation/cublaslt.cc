// The functions of cuBLASLt that matmul.cc calls, on the host, as the library documents them (cublasLt.h and its
// guide).
//
// It is stricter than the library where that finds mistakes. An algorithm runs only the problem that it was requested
// for, or one that differs only in m and n and that it was checked for, with pointers at least as aligned as stated.
// Sizes of attributes must be exact. Outputs may not overlap inputs, except D on C. How an algorithm cuts K depends on
// m and n of the problem that it was requested for, so that a different algorithm gives different bits. Features that
// Zerofleet does not use (batches, orders other than column-major, scales, integer types) are refused.
#include "worker/device/cuda/emulation/cublaslt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "worker/device/cuda/emulation/launch_log.h"
#include "worker/device/cuda/emulation/streams.h"
#include "worker/device/dtype.h"

namespace zerofleet::device::cuda::emulation {

CublasLt& cublaslt() {
  static CublasLt library;
  return library;
}

namespace {

constexpr uint32_t kOperation = 0x6f706572, kLayout = 0x6c61796f, kPreference = 0x70726566, kAlgorithm = 0x616c676f;
// The width of an algorithm's widest accesses, and the unit that epilogues require of aux's stride.
constexpr uint32_t kVectorBytes = 16;
constexpr int64_t kAuxStrideUnit = 8;
constexpr uint64_t kWorkspaceBytes = 4096, kWorkspaceAlignment = 256;

struct Operation {
  uint32_t magic = kOperation;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t bias_type = -1, aux_type = -1;
  int64_t aux_stride = 0;
  void *bias = nullptr, *aux = nullptr;
};

struct Layout {
  uint32_t magic = kLayout;
  cudaDataType_t type;
  int64_t rows, columns, stride;
};

struct Preference {
  uint32_t magic = kPreference;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint64_t workspace_bytes = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};  // A, B, C, D
};

struct Algorithm {
  uint32_t magic = kAlgorithm;
  uint32_t alignments[6];  // A, B, C, D, bias, aux
  uint64_t workspace_bytes;
  uint64_t problem;
  int64_t depth;  // length of a chain of additions
};

struct Element {
  DType dtype;
  void* data;

  float Load(int64_t at) const {
    if (dtype == DType::kF32) return static_cast<float*>(data)[at];
    return dtype == DType::kBF16 ? ToFloat(static_cast<BF16*>(data)[at]) : ToFloat(static_cast<F16*>(data)[at]);
  }
  void Store(int64_t at, float value) const {
    switch (dtype) {
      case DType::kF32: static_cast<float*>(data)[at] = value; break;
      case DType::kBF16: static_cast<BF16*>(data)[at] = ToBF16(value); break;
      case DType::kF16: static_cast<F16*>(data)[at] = ToF16(value); break;
    }
  }
};

bool IsFloat(int32_t type) { return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F; }
DType TypeOf(cudaDataType_t type) {
  return type == CUDA_R_32F ? DType::kF32 : type == CUDA_R_16BF ? DType::kBF16 : DType::kF16;
}

template <typename State, typename Opaque>
State* Make(Opaque* opaque, size_t size) {
  static_assert(sizeof(State) <= sizeof(Opaque));
  return opaque == nullptr || size < sizeof(State) ? nullptr : new (opaque) State();
}

// The state in `opaque`; null if it was never initialised, or was initialised as another type.
template <typename State, typename Opaque>
State* In(Opaque* opaque, uint32_t magic) {
  State* const state = reinterpret_cast<State*>(const_cast<std::remove_const_t<Opaque>*>(opaque));
  return state != nullptr && state->magic == magic ? state : nullptr;
}

template <typename T>
cublasStatus_t Assign(T& to, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// Algorithms add in short chains of fp32 additions, as a GPU's tiles do.
constexpr int64_t kLeastDepth = 8, kDepths = 5;

// The product that a call describes; `operation` is null if any descriptor is not of the right kind.
struct Problem {
  const Operation* operation;
  const Layout *a, *b, *c, *d;

  Problem(cublasLtMatmulDesc_t of, cublasLtMatrixLayout_t of_a, cublasLtMatrixLayout_t of_b,
          cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d)
      : operation(In<Operation>(of, kOperation)),
        a(In<Layout>(of_a, kLayout)),
        b(In<Layout>(of_b, kLayout)),
        c(In<Layout>(of_c, kLayout)),
        d(In<Layout>(of_d, kLayout)) {
    if (!a || !b || !c || !d) operation = nullptr;
  }

  Problem(const Operation* of, const Layout* of_a, const Layout* of_b, const Layout* of_c, const Layout* of_d)
      : operation(of), a(of_a), b(of_b), c(of_c), d(of_d) {}

  bool Has(uint32_t epilogue) const { return (operation->epilogue & epilogue) == epilogue; }
  bool fused() const { return operation->epilogue != CUBLASLT_EPILOGUE_DEFAULT; }
  bool writes_bias() const { return Has(16) || Has(CUBLASLT_EPILOGUE_BGRADA) || Has(CUBLASLT_EPILOGUE_BGRADB); }
  bool uses_bias() const { return Has(CUBLASLT_EPILOGUE_BIAS) || writes_bias(); }
  bool uses_aux() const { return Has(128); }
  int64_t depth() const { return operation->transpose_a == CUBLAS_OP_N ? a->columns : a->rows; }

  // A digest of everything except m and n.
  uint64_t Fingerprint() const {
    const auto parts = [](const Layout* at) { return std::make_tuple(at->type, at->stride); };
    const Operation& o = *operation;
    return absl::HashOf(parts(a), parts(b), parts(c), parts(d), depth(), o.transpose_a, o.transpose_b, o.epilogue,
                        o.aux_stride);
  }
};

// A copy of a problem that owns the descriptors.
class HeldProblem {
 public:
  explicit HeldProblem(const Problem& p) : operation_(*p.operation), a_(*p.a), b_(*p.b), c_(*p.c), d_(*p.d) {}
  Problem problem() const { return Problem(&operation_, &a_, &b_, &c_, &d_); }

 private:
  Operation operation_;
  Layout a_, b_, c_, d_;
};

bool KnownEpilogue(uint32_t epilogue) {
  for (const uint32_t known :
       {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS,
        CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
        CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    if (epilogue == known) return true;
  }
  return false;
}

// INVALID_VALUE if rows and columns do not fit together; NOT_SUPPORTED for a valid product that no GPU offers.
cublasStatus_t Examine(const Problem& p) {
  const auto rows = [](const Layout* at, int32_t op) { return op == CUBLAS_OP_N ? at->rows : at->columns; };
  const auto columns = [](const Layout* at, int32_t op) { return op == CUBLAS_OP_N ? at->columns : at->rows; };
  if (p.operation == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Operation& o = *p.operation;
  if (!KnownEpilogue(o.epilogue)) return CUBLAS_STATUS_INVALID_VALUE;
  if (rows(p.a, o.transpose_a) != p.d->rows || columns(p.b, o.transpose_b) != p.d->columns ||
      columns(p.a, o.transpose_a) != rows(p.b, o.transpose_b) || p.c->rows != p.d->rows ||
      p.c->columns != p.d->columns) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (const Layout* at : {p.a, p.b, p.c, p.d}) {
    if (at->rows <= 0 || at->columns <= 0 || at->stride < at->rows) return CUBLAS_STATUS_INVALID_VALUE;
    if (at->rows > INT32_MAX || at->columns > INT32_MAX) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (p.uses_bias() && (o.bias == nullptr || (o.bias_type != -1 && o.bias_type != p.d->type))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (p.uses_aux() && (o.aux == nullptr || o.aux_stride < p.d->rows || o.aux_stride % kAuxStrideUnit != 0 ||
                       (o.aux_type != -1 && o.aux_type != p.d->type))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (p.a->type != p.b->type || p.c->type != p.d->type || (p.d->type != p.a->type && p.d->type != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  // Bias gradients are computed on tensor cores only.
  if (p.writes_bias() && p.a->type == CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

uint32_t Alignment(const void* data) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(data) | kVectorBytes;
  return static_cast<uint32_t>(address & (~address + 1));
}

double Gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double GeluSlope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

// op(matrix) in fp32, column after column.
std::vector<float> Unpack(const Layout& layout, int32_t op, const void* data) {
  const Element from{TypeOf(layout.type), const_cast<void*>(data)};
  std::vector<float> to(layout.rows * layout.columns);
  for (int64_t column = 0; column < layout.columns; ++column) {
    for (int64_t row = 0; row < layout.rows; ++row) {
      to[op == CUBLAS_OP_N ? column * layout.rows + row : row * layout.columns + column] =
          from.Load(column * layout.stride + row);
    }
  }
  return to;
}

// vector[i] = the sum over line i, for `count` lines that are `line_step` apart and have `length` elements `step`
// apart.
void SumLines(const std::vector<float>& from, int64_t count, int64_t line_step, int64_t length, int64_t step,
              const Element& vector) {
  for (int64_t line = 0; line < count; ++line) {
    float sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += from[line * line_step + i * step];
    vector.Store(line, sum);
  }
}

// Applies the epilogue to one element's sum; returns the element of D.
float Finish(const Problem& p, float value, int64_t row, int64_t column) {
  const Operation& o = *p.operation;
  if (p.Has(CUBLASLT_EPILOGUE_BIAS)) value += Element{TypeOf(p.d->type), o.bias}.Load(row);
  const Element aux{TypeOf(p.d->type), o.aux};
  const int64_t at = column * o.aux_stride + row;
  if (p.Has(CUBLASLT_EPILOGUE_GELU)) {
    if (p.uses_aux()) aux.Store(at, value);
    return static_cast<float>(Gelu(value));
  }
  return p.Has(CUBLASLT_EPILOGUE_DGELU) ? static_cast<float>(value * GeluSlope(aux.Load(at))) : value;
}

void Multiply(const Problem& p, int64_t depth, float alpha, const void* a_data, const void* b_data, float beta,
              const void* c_data, void* d_data) {
  const Operation& o = *p.operation;
  const int64_t m = p.d->rows, n = p.d->columns, k = p.depth();
  const std::vector<float> a = Unpack(*p.a, o.transpose_a, a_data), b = Unpack(*p.b, o.transpose_b, b_data);
  const Element c{TypeOf(p.c->type), const_cast<void*>(c_data)}, d{TypeOf(p.d->type), d_data};
  const Element bias{TypeOf(p.d->type), o.bias};
  std::vector<float> finished;  // all columns' results, for the bias gradient
  std::vector<float> sums(m), partial(m);
  for (int64_t column = 0; column < n; ++column) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int64_t first = 0; first < k; first += depth) {
      std::fill(partial.begin(), partial.end(), 0.0f);
      for (int64_t i = first; i < std::min(first + depth, k); ++i) {
        const float factor = b[column * k + i];
        const float* const from = &a[i * m];
        for (int64_t row = 0; row < m; ++row) partial[row] += from[row] * factor;
      }
      for (int64_t row = 0; row < m; ++row) sums[row] += partial[row];
    }
    for (int64_t row = 0; row < m; ++row) {
      // Where beta is 0, C is not read: it may hold NaN.
      const float addend = beta == 0 ? 0.0f : beta * c.Load(column * p.c->stride + row);
      sums[row] = Finish(p, alpha * sums[row] + addend, row, column);
      d.Store(column * p.d->stride + row, sums[row]);
    }
    if (p.Has(CUBLASLT_EPILOGUE_DGELU_BGRAD)) finished.insert(finished.end(), sums.begin(), sums.end());
  }
  if (p.Has(CUBLASLT_EPILOGUE_DGELU_BGRAD)) SumLines(finished, m, 1, n, m, bias);
  if (p.Has(CUBLASLT_EPILOGUE_BGRADA)) SumLines(a, m, 1, k, m, bias);
  if (p.Has(CUBLASLT_EPILOGUE_BGRADB)) SumLines(b, n, k, k, 1, bias);
}

int64_t Bytes(const Layout* at) { return at->rows * at->columns * DTypeBytes(TypeOf(at->type)); }

// The product in the row-major terms of matmul.h: m x n x k, and which other operands are read.
LoggedLaunch LaunchOf(const Problem& p, float beta) {
  const int64_t m = p.d->columns, n = p.d->rows, k = p.depth();
  LoggedLaunch launch{
      .what = "cublasLtMatmul",
      .shape = absl::StrCat(m, " ", n, " ", k, " ", DTypeName(TypeOf(p.a->type)), " ", DTypeName(TypeOf(p.d->type)),
                            beta == 0 ? "" : " add", p.uses_bias() ? " bias" : "", p.uses_aux() ? " aux" : ""),
      .flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
      .bytes_read = Bytes(p.a) + Bytes(p.b),
      .bytes_written = Bytes(p.d)};
  if (beta != 0) launch.bytes_read += Bytes(p.c);
  if (p.uses_bias()) launch.bytes_read += n * DTypeBytes(TypeOf(p.d->type));
  if (p.uses_aux()) launch.bytes_read += Bytes(p.d);
  return launch;
}

bool Overlap(const Layout& x, const void* x_data, const Layout& y, const void* y_data) {
  const auto bytes = [](const Layout& at) {
    return ((at.columns - 1) * at.stride + at.rows) * DTypeBytes(TypeOf(at.type));
  };
  const uintptr_t x_first = reinterpret_cast<uintptr_t>(x_data), y_first = reinterpret_cast<uintptr_t>(y_data);
  return x_first < y_first + bytes(y) && y_first < x_first + bytes(x);
}

}  // namespace
}  // namespace zerofleet::device::cuda::emulation

using namespace zerofleet::device::cuda::emulation;  // the C functions below are in no namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublaslt().create == CUBLAS_STATUS_SUCCESS) *handle = reinterpret_cast<cublasLtHandle_t>(&cublaslt());
  return cublaslt().create;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    default: return "CUBLAS_STATUS_OTHER";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t) { return "as the emulation was told or found"; }

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  return Make<Operation>(operation, size) == nullptr ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  Operation* const o = In<Operation>(descriptor, kOperation);
  if (o == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return Assign(o->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return Assign(o->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return Assign(o->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return Assign(o->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return Assign(o->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return Assign(o->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return Assign(o->aux_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return Assign(o->aux_type, value, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t descriptor, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t stride) {
  Layout* const layout = Make<Layout>(descriptor, size);
  if (layout == nullptr) return CUBLAS_STATUS_ALLOC_FAILED;
  if (!IsFloat(type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  layout->type = type;
  layout->rows = static_cast<int64_t>(rows);
  layout->columns = static_cast<int64_t>(columns);
  layout->stride = stride;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size) {
  return Make<Preference>(preference, size) == nullptr ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t descriptor,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  Preference* const p = In<Preference>(descriptor, kPreference);
  if (p == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return Assign(p->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return Assign(p->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return Assign(p->alignments[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return Assign(p->alignments[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return Assign(p->alignments[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return Assign(p->alignments[3], value, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  const Preference* const asked = In<Preference>(preference, kPreference);
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!asked || wanted < 1 || !results || !found) return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  ++cublaslt().queries;
  const Problem problem(operation, a, b, c, d);
  const cublasStatus_t status = Examine(problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (problem.fused() && !cublaslt().fused_epilogues) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (problem.uses_aux() && Alignment(problem.operation->aux) < kVectorBytes) return CUBLAS_STATUS_NOT_SUPPORTED;
  // With a split K, the parts' sums may neither depend on timing nor be rounded: callers must exclude these schemes.
  if ((asked->reductions & (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  Algorithm algorithm = {.alignments = {},
                         .workspace_bytes = std::min(kWorkspaceBytes, asked->workspace_bytes),
                         .problem = problem.Fingerprint(),
                         .depth = kLeastDepth << (problem.d->rows + problem.d->columns) % kDepths};
  for (int i = 0; i < 4; ++i) {
    const uint32_t stated = asked->alignments[i];
    if (stated == 0 || (stated & (stated - 1)) != 0) return CUBLAS_STATUS_INVALID_VALUE;
    algorithm.alignments[i] = std::min(stated, kVectorBytes);
  }
  algorithm.alignments[4] = problem.uses_bias() ? Alignment(problem.operation->bias) : 1;
  algorithm.alignments[5] = problem.uses_aux() ? Alignment(problem.operation->aux) : 1;
  static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));
  results[0] = {};
  std::memcpy(&results[0].algo, &algorithm, sizeof algorithm);
  results[0].workspaceSize = algorithm.workspace_bytes;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Algorithm* const chosen = In<Algorithm>(algorithm, kAlgorithm);
  if (!chosen || !result) return CUBLAS_STATUS_INVALID_VALUE;
  if (!cublaslt().bands) return CUBLAS_STATUS_NOT_SUPPORTED;
  const Problem problem(operation, a, b, c, d);
  const cublasStatus_t status = Examine(problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  return chosen->problem == problem.Fingerprint() ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* A,
                              cublasLtMatrixLayout_t a, const void* B, cublasLtMatrixLayout_t b, const void* beta,
                              const void* C, cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  const Algorithm* const chosen = In<Algorithm>(algorithm, kAlgorithm);
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!chosen || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  const Problem problem(operation, a, b, c, d);
  const cublasStatus_t status = Examine(problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (chosen->problem != problem.Fingerprint() || workspace_bytes < chosen->workspace_bytes ||
      reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment != 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const void* const pointers[] = {A, B, C, D, problem.operation->bias, problem.operation->aux};
  const bool used[] = {true, true, true, true, problem.uses_bias(), problem.uses_aux()};
  for (int i = 0; i < 6; ++i) {
    if (!used[i]) continue;
    if (pointers[i] == nullptr || Alignment(pointers[i]) < chosen->alignments[i]) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool in_place = C == D && problem.c->stride == problem.d->stride;
  if (Overlap(*problem.a, A, *problem.d, D) || Overlap(*problem.b, B, *problem.d, D) ||
      (!in_place && Overlap(*problem.c, C, *problem.d, D))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const cublasStatus_t told = std::exchange(cublaslt().next_product, CUBLAS_STATUS_SUCCESS);
  if (told != CUBLAS_STATUS_SUCCESS) return told;
  if (LogCall(LaunchOf(problem, *static_cast<const float*>(beta)))) return CUBLAS_STATUS_SUCCESS;
  // The caller may reuse its descriptors and factors when this returns.
  Enqueue(stream, [held = HeldProblem(problem), depth = chosen->depth, alpha_now = *static_cast<const float*>(alpha), A,
                   B, beta_now = *static_cast<const float*>(beta), C, D, workspace, bytes = chosen->workspace_bytes] {
    // What an algorithm leaves in its workspace is unspecified.
    std::memset(workspace, 0xff, bytes);
    Multiply(held.problem(), depth, alpha_now, A, B, beta_now, C, D);
  });
  ++cublaslt().products;
  cublaslt().fused += problem.fused();
  cublaslt().uneven += (problem.d->rows | problem.d->columns | problem.depth()) % 8 != 0;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
