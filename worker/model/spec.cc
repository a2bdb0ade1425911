// The table behind a model; see spec.h.
#include "worker/model/spec.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/model/unit_names.h"

namespace zerofleet::model {
namespace {

constexpr double kInitDeviation = 0.02;

// Whether `name` matches `pattern`, in which * stands for any number of characters.
bool Fits(std::string_view name, std::string_view pattern) {
  size_t star = std::string_view::npos, tried = 0, n = 0, p = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++tried;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace

double ModelSpec::Deviation(Init init) const {
  ZF_CHECK(init == Init::kNormal || init == Init::kResidualProjection);
  return init == Init::kNormal ? kInitDeviation : kInitDeviation / std::sqrt(2.0 * static_cast<double>(layers_));
}

double ModelSpec::Deviation(const TensorSpec& tensor) const {
  if (tensor.init != Init::kAdapter) return Deviation(tensor.init);
  return 1 / std::sqrt(3.0 * static_cast<double>(tensor.whole_shape.back()));
}

int ModelSpec::FirstGradientOf(int unit) const {
  return tied_ && unit_kinds_[unit] == UnitKind::kEmbedding ? passed_units_ - 1 : PassedWith(unit);
}

int64_t ModelSpec::trained_parameters() const {
  int64_t elements = 0;
  for (const coordinator::UnitExtent& unit : units_) elements += unit.frozen ? 0 : unit.elements();
  return elements;
}

int ModelSpec::FirstTrained() const {
  int first = passed_units_ - 1;
  for (size_t u = 0; u < units_.size(); ++u) {
    if (!units_[u].frozen) first = std::min(first, PassedWith(static_cast<int>(u)));
  }
  return first;
}

double ModelSpec::FrozenFlopsPerToken(const Declaration& block, int64_t context) const {
  const int first = FirstTrained();
  double saved = 0;
  for (const TensorSpec& tensor : tensors_) {
    const bool looked_up = unit_kinds_[tensor.unit] == UnitKind::kEmbedding;
    if (!units_[tensor.unit].frozen || (looked_up && !(tied_ && tensor.flat_begin == 0))) continue;
    const bool passed_by = !looked_up && PassedWith(tensor.unit) < first;
    saved += (passed_by ? 4.0 : 2.0) * static_cast<double>(ElementsOf(tensor.whole_shape));
  }
  const double layers = std::max(0, first - 1);
  return saved + 8 * layers * static_cast<double>(block.attention_width()) * static_cast<double>(context);
}

void ModelSpec::AddAdapters(const std::string& prefix, const std::vector<DeclaredTensor>& tensors) {
  for (TensorSpec& tensor : tensors_) tensor.frozen = true;
  for (coordinator::UnitExtent& unit : units_) unit.frozen = true;
  for (int64_t layer = 0; layer < layers_; ++layer) {
    AddUnit(AdapterUnit(layer), UnitKind::kAdapters, absl::StrCat(prefix, layer, "."), tensors);
  }
}

absl::Status ModelSpec::Freeze(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    bool fits = false;
    for (TensorSpec& tensor : tensors_) {
      const std::string_view name = tensor.name;
      const bool prefixed = name.starts_with(prefix_);
      if (!Fits(name, pattern) && !(prefixed && Fits(name.substr(prefix_.size()), pattern))) continue;
      tensor.frozen = fits = true;
    }
    if (fits) continue;
    return absl::InvalidArgumentError(absl::StrCat("model.freeze: \"", absl::CHexEscape(pattern),
                                                   "\" fits no tensor; they are named such as ", tensors_.front().name,
                                                   " and ", tensors_[tensors_.size() / 2].name));
  }
  bool trains = false;
  for (auto& unit : units_) unit.frozen = true;
  for (const TensorSpec& tensor : tensors_) {
    units_[tensor.unit].frozen &= tensor.frozen;
    trains |= !tensor.frozen;
  }
  return trains ? absl::OkStatus() : absl::InvalidArgumentError("model.freeze: leaves no tensor to train");
}

void ModelSpec::AddUnit(std::string name, UnitKind kind, const std::string& prefix,
                        const std::vector<DeclaredTensor>& tensors) {
  const int64_t begin = tensors_.empty() ? 0 : tensors_.back().flat_end;
  units_.push_back({std::move(name), begin, begin});
  unit_kinds_.push_back(kind);
  for (const DeclaredTensor& tensor : tensors)
    AddTensor(tensor.unprefixed ? tensor.name : prefix + tensor.name, tensor);
}

void ModelSpec::AddTensor(std::string name, const DeclaredTensor& tensor) {
  const std::vector<int64_t> mine = ShapeOfPart(tensor.shape, tensor.cut, part_);
  const int64_t begin = units_.back().flat_end, end = begin + ElementsOf(mine);
  units_.back().flat_end = end;
  const int64_t whole_begin = whole_parameters_;
  whole_parameters_ += ElementsOf(tensor.shape);
  tensors_.push_back({std::move(name), mine, static_cast<int>(units_.size()) - 1, tensor.decay, tensor.init, begin, end,
                      whole_begin, tensor.shape, tensor.cut, tensor.projects});
}

std::vector<coordinator::PlacedRange> ModelSpec::ToWhole(const std::vector<coordinator::PlacedRange>& ranges) const {
  std::vector<coordinator::PlacedRange> whole;
  const auto add = [&whole](const coordinator::PlacedRange& piece) {
    const bool follows = !whole.empty() && whole.back().flat_end == piece.flat_begin &&
                         whole.back().offset + whole.back().elements() == piece.offset;
    if (follows) whole.back().flat_end = piece.flat_end;
    if (!follows) whole.push_back(piece);
  };
  for (const coordinator::PlacedRange& range : ranges) {
    auto tensor = std::upper_bound(tensors_.begin(), tensors_.end(), range.flat_begin,
                                   [](int64_t at, const TensorSpec& one) { return at < one.flat_end; });
    for (; tensor != tensors_.end() && tensor->flat_begin < range.flat_end; ++tensor) {
      const int64_t begin = std::max(range.flat_begin, tensor->flat_begin) - tensor->flat_begin;
      const int64_t end = std::min(range.flat_end, tensor->flat_end) - tensor->flat_begin;
      for (const WholeRun& run : RunsOfPart(tensor->whole_shape, tensor->cut, part_, begin, end)) {
        const int64_t at = tensor->whole_begin + run.whole_begin;
        add({at, at + run.elements, range.offset + (tensor->flat_begin + run.begin - range.flat_begin)});
      }
    }
  }
  return whole;
}

}  // namespace zerofleet::model
