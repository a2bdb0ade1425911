// The table behind a model; see spec.h.
#include "worker/model/spec.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/model/gpt2_spec.h"

namespace zerofleet {
namespace {

constexpr double kInitDeviation = 0.02;
constexpr int64_t kMostParameters = int64_t{1} << 46;

// The largest sizes any table is built for; beyond them products could overflow.
absl::Status CheckSizes(const v1::ModelConfig& config) {
  constexpr int64_t kMostLayers = 10000, kMostWidth = int64_t{1} << 20, kMostVocab = int64_t{1} << 26;
  auto check = [](const char* key, int64_t value, int64_t most) -> absl::Status {
    if (value >= 1 && value <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("model.", key, " is ", value, ", expected 1 to ", most));
  };
  ZF_RETURN_IF_ERROR(check("layers", config.layers(), kMostLayers));
  ZF_RETURN_IF_ERROR(check("hidden", config.hidden(), kMostWidth));
  ZF_RETURN_IF_ERROR(check("heads", config.heads(), kMostWidth));
  ZF_RETURN_IF_ERROR(check("intermediate", config.intermediate(), kMostWidth));
  ZF_RETURN_IF_ERROR(check("context", config.context(), kMostWidth));
  ZF_RETURN_IF_ERROR(check("vocab", config.vocab(), kMostVocab));
  if (config.hidden() % config.heads() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.heads is ", config.heads(), ", which does not divide model.hidden ", config.hidden()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSpec> ModelSpec::Create(const v1::ModelConfig& config) {
  ZF_RETURN_IF_ERROR(CheckSizes(config));
  if (config.family() != "gpt2") {
    return absl::InvalidArgumentError(
        absl::StrCat("model.family is '", config.family(), "'; this version trains gpt2"));
  }
  ModelSpec spec;
  spec.layers_ = config.layers();
  AddGpt2Tensors(config, spec);
  if (spec.parameters() > kMostParameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("model has ", spec.parameters(), " parameters, at most ", kMostParameters));
  }
  int64_t position_table = config.context() * config.hidden();
  spec.flops_per_token_ =
      6.0 * static_cast<double>(spec.parameters() - position_table) +
      12.0 * static_cast<double>(config.layers() * config.hidden()) * static_cast<double>(config.context());
  return spec;
}

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

}  // namespace zerofleet
