// Products side by side as one; see spread.h.
#include "worker/model/layers/spread.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet::model {
namespace {

// Queries, keys and values are three sections of rows, each cut by heads.
Cut CutOf(Width width) { return {Cut::Along::kRows, width == Width::kQueriesKeysValues ? 3 : 1}; }

Linear Declare(const Spread& row, Declaration& declaration) {
  const Sizes& sizes = declaration.sizes();
  const bool biased = row.bias == Bias::kBias || (row.bias == Bias::kConfigured && sizes.qkv_bias);
  DeclaredProduct product = {.n = 0, .k = sizes.hidden, .bias = biased};
  int64_t first_weight = -1, first_bias = -1;
  LowRank adapters(sizes.hidden, declaration);
  const auto each = [&](const auto& add) {
    for (const Spread::Product& one : row.products) {
      if (one.name != nullptr) add(one, sizes.Of(one.width));
    }
  };
  each([&](const Spread::Product& one, int64_t n) {
    const int64_t at = declaration.Tensor({.name = absl::StrCat(one.name, ".weight"),
                                           .shape = {n, sizes.hidden},
                                           .decay = true,
                                           .init = Init::kNormal,
                                           .cut = CutOf(one.width),
                                           .projects = true});
    if (first_weight < 0) first_weight = at;
    adapters.Declare(one.name, n, sizes.hidden, CutOf(one.width), product.n, declaration);
    product.n += n / declaration.parts();
    if (one.width == Width::kIntermediate) declaration.Shares({"model.intermediate", sizes.intermediate});
  });
  each([&](const Spread::Product& one, int64_t n) {
    if (!biased) return;
    const int64_t at =
        declaration.Tensor({absl::StrCat(one.name, ".bias"), {n}, false, Init::kZeros, CutOf(one.width)});
    if (first_bias < 0) first_bias = at;
  });
  declaration.Product(product);
  declaration.Gradient(product.n);
  return Linear(product, first_weight, first_bias, std::move(adapters));
}

}  // namespace

SpreadLayer::SpreadLayer(const Spread& row, Declaration& declaration)
    : product_(Declare(row, declaration)), output_(declaration.Activation({.columns = product_.n()})) {}

// The same op may also make the activation behind the product.
absl::Status SpreadLayer::Forward(const UnitPass& pass) const {
  product_.Forward(pass, before()->Output(pass), Output(pass), behind()->MadeByProduct(pass));
  return absl::OkStatus();
}

absl::StatusOr<device::Tensor> SpreadLayer::Backward(const UnitPass& pass, device::Tensor dy) const {
  ZF_RETURN_IF_ERROR(product_.BackwardWeight(pass, dy, before()->Output(pass)));
  return product_.BackwardInput(pass, dy, before()->TakesGradient(pass));
}

}  // namespace zerofleet::model
