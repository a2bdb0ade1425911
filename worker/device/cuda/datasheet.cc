// See datasheet.h.
#include "worker/device/cuda/datasheet.h"

namespace zerofleet::device::cuda {
namespace {

struct Model {
  std::string_view name, variant;  // both must occur in the driver's name for the GPU
  double half_flops, float_flops;  // bf16 and fp16 on tensor cores without sparsity; fp32
};

// The first matching row is used: variants with less power come before the plain name, which is the SXM module.
// Datasheets state tensor core rates with sparsity, which are twice those given here.
constexpr Model kModels[] = {
    {"H200", "NVL", 835.5e12, 60e12},    {"GH200", "", 989.4e12, 66.9e12}, {"H200", "", 989.4e12, 66.9e12},
    {"H100", "PCIe", 756.5e12, 51.2e12}, {"H100", "NVL", 835.5e12, 60e12}, {"H100", "", 989.4e12, 66.9e12},
    {"A100", "", 312e12, 19.5e12},       {"A30", "", 165e12, 10.3e12},
};

// Whether `word` occurs in `name` with no letter or digit on either side: "A30" is not in "A300".
bool Names(std::string_view name, std::string_view word) {
  const auto joins = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  if (word.empty()) return true;
  for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !joins(name[at - 1])) && (end == name.size() || !joins(name[end]))) return true;
  }
  return false;
}

}  // namespace

double DatasheetFlops(std::string_view name, DType dtype) {
  for (const Model& model : kModels) {
    if (Names(name, model.name) && Names(name, model.variant)) {
      return dtype == DType::kF32 ? model.float_flops : model.half_flops;
    }
  }
  return 0;
}

}  // namespace zerofleet::device::cuda
