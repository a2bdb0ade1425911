// See shape.h.
#include "cli/planner/shape.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace zerofleet::cli {
namespace {

constexpr double kWidthPerLayer = 85;
constexpr int64_t kHead = 64, kWideStep = 1024;
constexpr double kWideFrom = 1e9;

// Parameters of a block: four matrices of hidden x hidden, two of hidden x 4 hidden, biases and norms.
double BlockParameters(double hidden) { return 12 * hidden * hidden + 13 * hidden; }

}  // namespace

absl::StatusOr<v1::ModelConfig> ShapeOf(double parameters, int64_t context, int64_t vocab) {
  const auto wrong = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("--parameters: a model of ", HumanCount(parameters), " ", why));
  };
  if (!(parameters >= kSmallestShape && parameters <= kLargestShape)) {
    return wrong(absl::StrCat("cannot be planned on a cluster; from ", HumanCount(kSmallestShape), " to ",
                              HumanCount(kLargestShape), " can"));
  }
  const double tables = static_cast<double>(vocab + context + 2);
  const int64_t step = parameters >= kWideFrom ? kWideStep : kHead;
  const double width = std::cbrt(parameters * kWidthPerLayer / 12);
  int64_t hidden = std::max<int64_t>(1, std::llround(width / static_cast<double>(step))) * step;
  // In a small model most parameters are in the embedding tables, so the hidden size has to be smaller.
  const auto left = [&] { return parameters - tables * static_cast<double>(hidden); };
  while (hidden > kHead && left() < BlockParameters(static_cast<double>(hidden))) hidden -= kHead;
  if (left() < BlockParameters(static_cast<double>(hidden)) / 2) {
    return wrong(absl::StrCat("has no room for a vocabulary of ", vocab, "; at least ",
                              HumanCount(tables * kHead + BlockParameters(kHead))));
  }
  v1::ModelConfig model;
  model.set_family("gpt2");
  model.set_hidden(hidden);
  model.set_layers(std::max<int64_t>(1, std::llround(left() / BlockParameters(static_cast<double>(hidden)))));
  model.set_heads(hidden / kHead);
  model.set_kv_heads(hidden / kHead);
  model.set_intermediate(4 * hidden);
  model.set_context(context);
  model.set_vocab(vocab);
  return model;
}

}  // namespace zerofleet::cli
