// The list of families, and what is made from a row; see families.h.
#include "worker/model/families.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "worker/device/dry/dry_device.h"
#include "worker/model/gpt2_family.h"
#include "worker/model/unit_uses.h"

namespace zerofleet::model {
namespace {

constexpr const ModelFamily* kFamilies[] = {&kGpt2Family};

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

std::span<const ModelFamily* const> ModelFamilies() { return kFamilies; }

std::vector<std::string> ModelFamilyNames() {
  std::vector<std::string> names;
  for (const ModelFamily* family : kFamilies) names.emplace_back(family->name);
  return names;
}

absl::StatusOr<const ModelFamily*> FindModelFamily(std::string_view name) {
  for (const ModelFamily* family : kFamilies) {
    if (name == family->name) return family;
  }
  return absl::InvalidArgumentError(absl::StrCat("model.family is '", std::string(name), "'; this version trains ",
                                                 absl::StrJoin(ModelFamilyNames(), ", ")));
}

absl::StatusOr<ModelSpec> ModelSpec::Create(const v1::ModelConfig& config) {
  ZF_RETURN_IF_ERROR(CheckSizes(config));
  ZF_ASSIGN_OR_RETURN(const ModelFamily* family, FindModelFamily(config.family()));
  ModelSpec spec;
  spec.layers_ = config.layers();
  family->add_tensors(config, spec);
  if (spec.parameters() > kMostParameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("model has ", spec.parameters(), " parameters, at most ", kMostParameters));
  }
  spec.flops_per_token_ = family->flops_per_token(config, spec.parameters());
  return spec;
}

absl::StatusOr<std::unique_ptr<Model>> Model::Create(const v1::ModelConfig& config, device::DType dtype,
                                                     device::Device& device, int64_t sequences, int64_t time,
                                                     const Checkpointing& checkpointing) {
  ZF_ASSIGN_OR_RETURN(const ModelFamily* family, FindModelFamily(config.family()));
  std::unique_ptr<Model> model = family->create(config, dtype, device, sequences, time, checkpointing);
  device::DryDevice dry;
  ZF_ASSIGN_OR_RETURN(model->uses_, RecordUses(*family->create(config, dtype, dry, 1, 1, checkpointing), dtype));
  return model;
}

}  // namespace zerofleet::model
