// The table behind a model; see spec.h.
#include "worker/model/spec.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace zerofleet::model {
namespace {

constexpr double kInitDeviation = 0.02;
}  // namespace

double ModelSpec::Deviation(Init init) const {
  ZF_CHECK(init == Init::kNormal || init == Init::kResidualProjection);
  return init == Init::kNormal ? kInitDeviation : kInitDeviation / std::sqrt(2.0 * static_cast<double>(layers_));
}

void ModelSpec::AddUnit(std::string name) {
  int64_t begin = tensors_.empty() ? 0 : tensors_.back().flat_end;
  units_.push_back({std::move(name), begin, begin});
}

void ModelSpec::AddTensor(std::string name, std::vector<int64_t> shape, bool decay, Init init) {
  ZF_CHECK(!units_.empty());
  int64_t elements = 1;
  for (int64_t side : shape) elements *= side;
  int64_t begin = units_.back().flat_end;
  units_.back().flat_end = begin + elements;
  tensors_.push_back(
      {std::move(name), std::move(shape), static_cast<int>(units_.size()) - 1, decay, init, begin, begin + elements});
}

}  // namespace zerofleet::model
