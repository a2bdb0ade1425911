// See matmul_primitive.h.
#include "worker/device/cpu/matmul_primitive.h"

#include <dnnl.hpp>

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace zerofleet::device {
namespace {

using dnnl::memory;

dnnl::engine& Engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type TypeOf(DType dtype) {
  return dtype == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
}

memory::desc Describe(int64_t rows, int64_t columns, const Matrix& matrix) {
  const memory::dims strides = matrix.transposed ? memory::dims{1, matrix.stride} : memory::dims{matrix.stride, 1};
  return memory::desc({rows, columns}, TypeOf(matrix.data.dtype), strides);
}

// Everything that a primitive depends on: shape, strides, and types and orientations packed into one number.
using Key = std::array<int64_t, 7>;

Key KeyOf(const MatmulArguments& p) {
  int64_t bits = p.accumulate;
  for (const Matrix& matrix : {p.a, p.b, p.c}) {
    bits = bits << 2 | int64_t{matrix.transposed} << 1 | (matrix.data.dtype == DType::kBF16);
  }
  const int64_t bias = !p.bias ? 0 : p.bias.dtype == DType::kBF16 ? 1 : 2;
  return {p.m, p.n, p.k, p.a.stride, p.b.stride, p.c.stride, bits << 2 | bias};
}

// This thread's scratch memory, which its primitives share: with their own they would take several MiB each.
void* Scratch(size_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  const auto free = [](void* data) { ::operator delete(data, kAlignment); };
  thread_local std::unique_ptr<void, decltype(free)> memory(nullptr, free);
  thread_local size_t size = 0;
  if (bytes > size) {
    size = 0;
    memory.reset();
    memory.reset(::operator new(bytes, kAlignment));
    size = bytes;
  }
  return memory.get();
}

// A primitive and the memory objects that it runs on, whose addresses are set for each call.
class Product {
 public:
  explicit Product(const MatmulArguments& p) {
    const memory::desc a = Describe(p.m, p.k, p.a), b = Describe(p.k, p.n, p.b), c = Describe(p.m, p.n, p.c);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (p.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    memory::desc bias;
    if (p.bias) bias = memory::desc({1, p.n}, TypeOf(p.bias.dtype), memory::dims{p.n, 1});
    const dnnl::matmul::desc operation = p.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc descriptor(operation, attributes, Engine());
    primitive_ = dnnl::matmul(descriptor);
    arguments_[DNNL_ARG_SRC] = memory(a, Engine(), nullptr);
    arguments_[DNNL_ARG_WEIGHTS] = memory(b, Engine(), nullptr);
    arguments_[DNNL_ARG_DST] = memory(c, Engine(), nullptr);
    if (p.bias) arguments_[DNNL_ARG_BIAS] = memory(bias, Engine(), nullptr);
    arguments_[DNNL_ARG_SCRATCHPAD] = memory(descriptor.scratchpad_desc(), Engine(), nullptr);
    scratch_bytes_ = descriptor.scratchpad_desc().get_size();
  }

  void Run(dnnl::stream& stream, const MatmulArguments& p) {
    arguments_[DNNL_ARG_SRC].set_data_handle(p.a.data.data);
    arguments_[DNNL_ARG_WEIGHTS].set_data_handle(p.b.data.data);
    arguments_[DNNL_ARG_DST].set_data_handle(p.c.data.data);
    if (p.bias) arguments_[DNNL_ARG_BIAS].set_data_handle(p.bias.data);
    if (scratch_bytes_ > 0) arguments_[DNNL_ARG_SCRATCHPAD].set_data_handle(Scratch(scratch_bytes_));
    primitive_.execute(stream, arguments_);
    stream.wait();
  }

 private:
  dnnl::matmul primitive_;
  std::unordered_map<int, memory> arguments_;
  size_t scratch_bytes_ = 0;
};

bool ProbeBF16() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  if (isa != dnnl::cpu_isa::avx512_core_bf16 && isa != dnnl::cpu_isa::avx512_core_amx) return false;
  MatmulArguments probe;
  probe.m = probe.n = probe.k = 64;
  for (Matrix* matrix : {&probe.a, &probe.b, &probe.c}) *matrix = {{nullptr, DType::kBF16}, 64, false};
  try {
    Product product(probe);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

}  // namespace

bool HasBF16Instructions() {
  static const bool has = ProbeBF16();
  return has;
}

bool HasAmx() { return HasBF16Instructions() && dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx; }

absl::Status PrimitiveMatmul(const MatmulArguments& arguments) {
  thread_local std::map<Key, std::unique_ptr<Product>> products;
  thread_local dnnl::stream stream(Engine());
  try {
    std::unique_ptr<Product>& product = products[KeyOf(arguments)];
    if (product == nullptr) product = std::make_unique<Product>(arguments);
    product->Run(stream, arguments);
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) {
      return absl::ResourceExhaustedError("oneDNN found no memory for a matrix product on the cpu device");
    }
    if (error.status == dnnl_unimplemented) return absl::UnimplementedError("oneDNN has no primitive of this kind");
    return absl::InternalError(absl::StrCat("oneDNN failed a matrix product on the cpu device: ", error.what()));
  }
}

}  // namespace zerofleet::device
