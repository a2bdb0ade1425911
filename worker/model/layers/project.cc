// A branch's last product; see project.h.
#include "worker/model/layers/project.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet::model {
namespace {

Linear Declare(const Project& row, Declaration& declaration) {
  const int64_t hidden = declaration.sizes().hidden, width = declaration.sizes().Of(row.width);
  const bool biased = row.bias == Bias::kBias;
  const int64_t weight = declaration.Tensor({.name = absl::StrCat(row.name, ".weight"),
                                             .shape = {hidden, width},
                                             .decay = true,
                                             .init = Init::kResidualProjection,
                                             .cut = {Cut::Along::kColumns},
                                             .projects = true});
  const int64_t bias =
      biased ? declaration.Tensor({absl::StrCat(row.name, ".bias"), {hidden}, false, Init::kZeros}) : -1;
  const DeclaredProduct product = {.n = hidden, .k = width / declaration.parts(), .bias = biased};
  declaration.Product(product);
  LowRank adapters(product.k, declaration);
  adapters.Declare(row.name, hidden, width, {Cut::Along::kColumns}, 0, declaration);
  if (row.width == Width::kIntermediate) declaration.Shares({"model.intermediate", width});
  declaration.Pointwise(3 * 3 * hidden);
  return Linear(product, weight, bias, std::move(adapters));
}

}  // namespace

ProjectLayer::ProjectLayer(const Project& row, Declaration& declaration)
    : branch_(declaration.branches() - 1), product_(Declare(row, declaration)) {}

absl::Status ProjectLayer::Forward(const UnitPass& pass) const {
  return product_.ForwardIntoStream(pass, before()->Output(pass), pass.StreamBefore(branch_), Output(pass));
}

absl::StatusOr<device::Tensor> ProjectLayer::Backward(const UnitPass& pass, device::Tensor dy) const {
  ZF_RETURN_IF_ERROR(product_.BackwardWeight(pass, dy, before()->Output(pass)));
  return product_.BackwardInput(pass, dy, before()->TakesGradient(pass));
}

}  // namespace zerofleet::model
