// The list of families, and what is made from a row; see families.h.
#include "worker/model/families.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/device/dry/dry_device.h"
#include "worker/model/declared_units.h"
#include "worker/model/families/gpt2.h"
#include "worker/model/families/llama.h"
#include "worker/model/foreign.h"
#include "worker/model/transformer.h"
#include "worker/model/unit_names.h"
#include "worker/model/unit_uses.h"

namespace zerofleet::model {
namespace {

constexpr const ModelFamily* kFamilies[] = {&kGpt2Family, &kLlamaFamily};

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
  ZF_RETURN_IF_ERROR(check("context", config.context(), kMostContext));
  ZF_RETURN_IF_ERROR(check("vocab", config.vocab(), kMostVocab));
  if (config.head_size() == 0 && config.hidden() % config.heads() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.heads is ", config.heads(), ", which does not divide model.hidden ", config.hidden()));
  }
  const Sizes whole(config);
  ZF_RETURN_IF_ERROR(check("kv_heads", whole.kv_heads, whole.heads));
  ZF_RETURN_IF_ERROR(check("head_size", whole.head_size, kMostWidth / whole.heads));
  if (whole.heads % whole.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.kv_heads is ", whole.kv_heads, ", which does not divide model.heads ", whole.heads));
  }
  if (!whole.frequencies.empty() && whole.head_size % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.head_size is ", whole.head_size, ", which rotary positions cannot halve"));
  }
  return absl::OkStatus();
}

// InvalidArgument unless each target is a product of the blocks.
absl::Status CheckLoraTargets(const Sizes& sizes, const Declaration& block) {
  for (const std::string& target : sizes.lora_targets) {
    const auto& names = block.product_names();
    const bool known = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name == target || name.ends_with("." + target);
    });
    if (known) continue;
    return absl::InvalidArgumentError(absl::StrCat("model.lora.targets: \"", absl::CHexEscape(target),
                                                   "\" is no product of the blocks; they are ",
                                                   absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace

// Sizes that ranks share must divide equally; a vocabulary is padded, but no part may consist of padding alone.
absl::Status CheckParts(const v1::ModelConfig& config, int64_t parts) {
  ZF_ASSIGN_OR_RETURN(const ModelFamily* family, FindModelFamily(config.family()));
  const std::vector<SharedSize> shared = DeclareUnits(family->rows, Sizes(config)).block.shared();
  const auto fits = [&](int64_t count) {
    return (count - 1) * CeilDivide(config.vocab(), count) < config.vocab() &&
           std::all_of(shared.begin(), shared.end(), [&](const SharedSize& one) { return one.size % count == 0; });
  };
  if (fits(parts)) return absl::OkStatus();
  std::vector<int64_t> degrees;
  for (int64_t count = 1; count <= shared.front().size && degrees.size() < 20; ++count) {
    if (fits(count)) degrees.push_back(count);
  }
  const std::string sizes = absl::StrJoin(
      shared, ", ", [](std::string* out, const SharedSize& one) { absl::StrAppend(out, one.key, " ", one.size); });
  return absl::InvalidArgumentError(absl::StrCat("cannot be ", parts, " with ", sizes, " and model.vocab ",
                                                 config.vocab(), "; ", absl::StrJoin(degrees, ", "),
                                                 degrees.size() == 1 ? " fits" : " fit"));
}

absl::Status CheckSequences(int64_t time, int64_t parts) {
  const int64_t below = time / parts * parts;
  if (below == time) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot divide model.context ", time, " among ", parts, " ranks; ",
                                                 below > 0 ? absl::StrCat(below, " or ") : "", below + parts,
                                                 " would fit"));
}

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

absl::StatusOr<ModelSpec> ModelSpec::Create(const v1::ModelConfig& config, const ModelPart& part) {
  if (IsForeign(config)) return CreateForeign(config, part);
  ZF_RETURN_IF_ERROR(CheckSizes(config));
  ZF_ASSIGN_OR_RETURN(const ModelFamily* family, FindModelFamily(config.family()));
  if (part.count > 1) ZF_RETURN_IF_ERROR(Annotate(CheckParts(config, part.count), "parallel.tensor"));
  const std::string prefix(family->hugging_face.prefix);
  ModelSpec spec(part, prefix);
  spec.layers_ = config.layers();
  const Sizes sizes(config);
  if (family->rotary() && sizes.frequencies.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("model.rope_theta is ", config.rope_theta(), ", expected >= 1"));
  }
  spec.tied_ = family->rows.head.Tied(sizes);
  const DeclaredUnits units = DeclareUnits(family->rows, sizes);
  spec.AddUnit(kEmbeddingUnit, UnitKind::kEmbedding, prefix, units.embedding.tensors());
  for (int64_t layer = 0; layer < config.layers(); ++layer) {
    spec.AddUnit(BlockUnit(layer), UnitKind::kBlock,
                 absl::StrCat(prefix, std::string(family->hugging_face.blocks), layer, "."), units.block.tensors());
  }
  spec.AddUnit(kHeadUnit, UnitKind::kHead, prefix, units.head.tensors());
  spec.passed_units_ = static_cast<int>(spec.units_.size());
  spec.whole_base_parameters_ = spec.whole_parameters_;
  ZF_RETURN_IF_ERROR(CheckLoraTargets(sizes, units.block));
  if (sizes.lora_rank > 0) {
    spec.AddAdapters(absl::StrCat(prefix, std::string(family->hugging_face.blocks)), units.block.adapter_tensors());
  }
  if (sizes.lora_rank > 0 && config.freeze_size() > 0) {
    return absl::InvalidArgumentError(
        "model.freeze: with model.lora everything but the adapters is frozen; leave it out");
  }
  ZF_RETURN_IF_ERROR(spec.Freeze({config.freeze().begin(), config.freeze().end()}));
  if (spec.whole_parameters() > kMostParameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("model has ", spec.whole_parameters(), " parameters, at most ", kMostParameters));
  }
  spec.flops_per_token_ =
      units.FlopsPerToken(spec.whole_parameters()) - spec.FrozenFlopsPerToken(units.block, config.context());
  spec.pointwise_elements_per_token_ = units.PointwiseElementsPerToken();
  return spec;
}

absl::StatusOr<std::unique_ptr<Model>> Model::Create(const v1::ModelConfig& config, const ModelRun& run,
                                                     device::Device& device) {
  if (IsForeign(config)) {
    ZF_ASSIGN_OR_RETURN(std::unique_ptr<ForeignModel> foreign, ForeignModel::Create(config, run.passes, device));
    foreign->uses_ = {UsesOf(foreign->script().training), UsesOf(foreign->script().evaluation)};
    return foreign;
  }
  ZF_ASSIGN_OR_RETURN(const ModelFamily* family, FindModelFamily(config.family()));
  if (run.sharing.sequence) {
    ZF_RETURN_IF_ERROR(Annotate(CheckSequences(run.time, run.sharing.parts), "parallel.sequence"));
  }
  ZF_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::Create(config));
  const int first = spec.FirstTrained();
  auto model = std::make_unique<Transformer>(family->rows, config, first, run, device);
  device::DryDevice dry;
  Transformer dry_model(family->rows, config, first, {.dtype = run.dtype, .checkpointing = run.checkpointing}, dry);
  ZF_ASSIGN_OR_RETURN(model->uses_, RecordUses(dry_model, run.dtype));
  return model;
}

}  // namespace zerofleet::model
