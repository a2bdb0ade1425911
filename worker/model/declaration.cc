// Rows collected; see declaration.h.
#include "worker/model/declaration.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace zerofleet::model {

int64_t Declaration::Tensor(DeclaredTensor tensor) {
  const int64_t at = offset_,
                elements = ElementsOf(ShapeOfPart(tensor.shape, tensor.cut, {.index = 0, .count = sharing_.parts}));
  offset_ += elements;
  if (tensor.shape.size() == 1) vectors_ += elements;
  tensors_.push_back(std::move(tensor));
  return at;
}

int64_t Declaration::AdapterTensor(DeclaredTensor tensor) {
  const int64_t at = adapter_offset_;
  adapter_offset_ += ElementsOf(ShapeOfPart(tensor.shape, tensor.cut, {.index = 0, .count = sharing_.parts}));
  adapter_tensors_.push_back(std::move(tensor));
  return at;
}

int Declaration::Activation(ActivationRow row) {
  row.branch = branches_ - 1;
  activations_.push_back(row);
  return static_cast<int>(activations_.size()) - 1;
}

int Declaration::BeginBranch() {
  if (branches_ > 0)
    middles_.push_back(Activation({.columns = sizes_.hidden, .tokens = ActivationRow::Tokens::kOfStream}));
  return branches_++;
}

void Declaration::Shares(const SharedSize& size) {
  const bool known = std::any_of(shared_.begin(), shared_.end(),
                                 [&](const SharedSize& one) { return std::string_view(one.key) == size.key; });
  if (!known) shared_.push_back(size);
}

int64_t Declaration::NormSums(int64_t elements, bool summed) {
  return std::exchange(norm_sums_, norm_sums_ + (summed ? elements : 0));
}

double Declaration::ForwardFlops() const {
  double flops = 4 * static_cast<double>(sizes_.context) * static_cast<double>(attention_width_);
  for (const DeclaredProduct& product : products_) {
    flops += 2 * static_cast<double>(product.n) * static_cast<double>(product.k) * parts();
  }
  return flops;
}

double Declaration::LastProductFlops() const {
  const DeclaredProduct& last = products_.back();
  return 2 * static_cast<double>(last.n) * static_cast<double>(last.k) * parts();
}

}  // namespace zerofleet::model
