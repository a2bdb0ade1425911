// The rows' defaults first, then those that depend on other keys, each after what it depends on.
#include "cli/config/config_defaults.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "cli/config/keys.h"
#include "cli/config/nearest.h"
#include "coordinator/batch_shares.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "worker/model/families.h"
#include "worker/model/presets.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::cli {
namespace {

using google::protobuf::FieldDescriptor;

// Parses a default of a row; a default that cannot be parsed is an internal error.
template <typename T>
T Number(const std::string& text) {
  T value{};
  const std::from_chars_result read = std::from_chars(text.data(), text.data() + text.size(), value);
  ZF_CHECK(read.ec == std::errc() && read.ptr == text.data() + text.size());
  return value;
}

constexpr double kSpikeFactor = 2;  // the default of divergence.spike_factor with on_divergence: rollback

// Sets a key to its row's default; creates the section in any case.
void FillFromRow(const Key& key, ConfigDraft& draft) {
  google::protobuf::Message& section = key.Section(draft.config);
  const std::string& value = key.row->value();
  if (value.empty() || draft.Given(key.name)) return;
  const google::protobuf::Reflection& reflection = *section.GetReflection();
  switch (key.field().cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: reflection.SetString(&section, &key.field(), value); break;
    case FieldDescriptor::CPPTYPE_INT32: reflection.SetInt32(&section, &key.field(), Number<int32_t>(value)); break;
    case FieldDescriptor::CPPTYPE_INT64: reflection.SetInt64(&section, &key.field(), Number<int64_t>(value)); break;
    case FieldDescriptor::CPPTYPE_UINT64: reflection.SetUInt64(&section, &key.field(), Number<uint64_t>(value)); break;
    case FieldDescriptor::CPPTYPE_DOUBLE: reflection.SetDouble(&section, &key.field(), Number<double>(value)); break;
    case FieldDescriptor::CPPTYPE_BOOL: reflection.SetBool(&section, &key.field(), value == "true"); break;
    default: ZF_CHECK(false);
  }
}

// Whether any key below `section` is given.
bool GivenBelow(const std::string& section, const ConfigDraft& draft) {
  const auto found = draft.given.lower_bound(absl::StrCat(section, "."));
  return found != draft.given.end() && absl::StartsWith(found->first, absl::StrCat(section, "."));
}

// Copies to the draft's model the fields of `from` that no key gives. A section counts as one field: it is copied whole
// if none of its keys is given. With `keep`, fields that already have a value are left as well.
void TakeWhatIsOpen(v1::ModelConfig from, bool keep, ConfigDraft& draft) {
  v1::ModelConfig& model = *draft.config.mutable_model();
  const google::protobuf::Reflection& reflection = *model.GetReflection();
  from.clear_preset();
  from.clear_freeze();  // a setting of the run that wrote the model
  for (int i = 0; i < model.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *model.GetDescriptor()->field(i);
    const std::string key = absl::StrCat("model.", field.name());
    const bool section = field.message_type() != nullptr && !IsRecord(field);
    const bool set = section ? GivenBelow(key, draft)
                             : draft.Given(key) || (keep && !field.is_repeated() && reflection.HasField(model, &field));
    // The draft's section already holds the defaults of its rows; it is replaced, not merged.
    if (set) reflection.ClearField(&from, &field);
    if (!set && section && reflection.HasField(from, &field)) reflection.ClearField(&model, &field);
  }
  model.MergeFrom(from);
}

absl::Status FillPreset(ConfigDraft& draft) {
  v1::ModelConfig& model = *draft.config.mutable_model();
  const model::ModelPreset* preset = model::FindPreset(model.preset());
  if (preset == nullptr) {
    std::vector<std::string> names;
    for (const model::ModelPreset& each : model::ModelPresets()) names.push_back(each.name);
    const std::string nearest = Nearest(model.preset(), names);
    const std::string all = absl::StrCat("the presets are ", absl::StrJoin(names, ", "));
    return draft.Error("model.preset", nearest.empty()
                                           ? absl::StrCat("unknown preset; ", all)
                                           : absl::StrCat("unknown preset; did you mean ", nearest, "? (", all, ")"));
  }
  v1::ModelConfig sizes = preset->Config();
  // The family derives their defaults from the sizes that are given.
  if (preset->kv_heads == 0) sizes.clear_kv_heads();
  if (preset->intermediate == 0) sizes.clear_intermediate();
  TakeWhatIsOpen(sizes, /*keep=*/false, draft);
  return absl::OkStatus();
}

// Fills the fields that only rotary families such as Llama have.
void FillLlama(ConfigDraft& draft) {
  v1::ModelConfig& model = *draft.config.mutable_model();
  const absl::StatusOr<const model::ModelFamily*> family = model::FindModelFamily(model.family());
  if (!family.ok() || !(*family)->rotary()) {
    // FillFromRow has created the section.
    if (!GivenBelow("model.rope_scaling", draft)) model.clear_rope_scaling();
    return;
  }
  constexpr double kTheta = 1e4, kEpsilon = 1e-5;
  if (model.head_size() == 0 && model.heads() > 0) model.set_head_size(model.hidden() / model.heads());
  if (model.rope_theta() == 0) model.set_rope_theta(kTheta);
  if (model.norm_epsilon() == 0) model.set_norm_epsilon(kEpsilon);
}

// Without a rank the section has no meaning and is removed, unless one of its keys is given.
void FillLora(ConfigDraft& draft) {
  constexpr double kAlpha = 16;
  v1::ModelConfig& model = *draft.config.mutable_model();
  if (model.lora().rank() == 0) {
    if (!GivenBelow("model.lora", draft)) model.clear_lora();
  } else if (model.lora().alpha() == 0) {
    model.mutable_lora()->set_alpha(kAlpha);
  }
}

absl::Status FillModel(ConfigDraft& draft) {
  v1::ModelConfig& model = *draft.config.mutable_model();
  if (!model.torch().empty()) {
    if (!draft.Given("model.family")) model.set_family("torch");
    if (draft.stored) TakeWhatIsOpen(draft.stored->model, /*keep=*/true, draft);
    if (model.context() == 0) model.set_context(1);                       // a sample counts as one token
    if (draft.config.device() == "auto") draft.config.set_device("cpu");  // the only device that runs a PyTorch module
    if (!GivenBelow("model.rope_scaling", draft)) model.clear_rope_scaling();
    FillLora(draft);
    return absl::OkStatus();
  }
  if (!model.preset().empty()) {
    ZF_RETURN_IF_ERROR(FillPreset(draft));
  } else if (!draft.stored) {
    for (const char* key : {"model.layers", "model.hidden", "model.heads", "model.context"}) {
      if (!draft.Given(key)) return draft.Error(key, "is missing; give it, or a model.preset such as gpt2-124m");
    }
    if (!draft.Given("model.family")) model.set_family(model::ModelFamilies().front()->name);
  }
  if (draft.stored) TakeWhatIsOpen(draft.stored->model, /*keep=*/true, draft);
  if (!draft.Given("model.kv_heads") && model.kv_heads() == 0) model.set_kv_heads(model.heads());
  if (!draft.Given("model.intermediate") && model.intermediate() == 0) {
    // The check reports an unknown family and sizes that are out of range; here they must only not overflow.
    constexpr int64_t kLargest = int64_t{1} << 60;
    const absl::StatusOr<const model::ModelFamily*> found = model::FindModelFamily(model.family());
    const model::ModelFamily& family = found.ok() ? **found : *model::ModelFamilies().front();
    model.set_intermediate(family.default_intermediate(std::clamp(model.hidden(), -kLargest, kLargest)));
    if (model.intermediate() == 0 && model.hidden() != 0) {
      return draft.Error("model.intermediate", absl::StrCat("is missing; ", family.name, " has no default of it"));
    }
  }
  FillLlama(draft);
  FillLora(draft);
  const bool token_files = draft.config.data().format() == "tokens_u16" || draft.config.data().format() == "tokens_u32";
  if (!draft.Given("model.vocab") && model.vocab() == 0) {
    if (token_files && draft.config.data().tokenizer_digest().empty()) {
      return draft.Error("model.vocab", "is missing; token files do not say how large the vocabulary is, so give it");
    }
    model.set_vocab(draft.tokenizer_vocab);
  }
  return absl::OkStatus();
}

absl::Status FillBatch(ConfigDraft& draft) {
  const v1::ParallelConfig& parallel = draft.config.parallel();
  v1::BatchConfig& batch = *draft.config.mutable_batch();
  // The lines below compute with the schedule.
  if (const std::string wrong = coordinator::ScheduleError(batch); !wrong.empty()) {
    return draft.Error("batch.schedule", wrong);
  }
  if (draft.Given("batch.micro_sequences")) return absl::OkStatus();
  if (coordinator::SumsInSampleOrder(draft.config)) {
    return draft.Error("batch.micro_sequences",
                       "is missing; with reduce.order samples it decides the bits, and must not follow from the number "
                       "of workers, so give it");
  }
  // One forward pass per step, if the batch can be shared equally; if it cannot, the check reports it.
  const int64_t groups = std::max(1, parallel.workers() / std::max(1, parallel.tensor()));
  batch.set_micro_sequences(std::max<int64_t>(1, coordinator::LeastSequences(batch) / groups));
  return absl::OkStatus();
}

// Derives `steps` from `tokens`: the least number that trains on all of them. A complete configuration, as `train`
// writes it for its processes, has both keys.
absl::Status FillSteps(ConfigDraft& draft) {
  v1::Config& config = draft.config;
  const auto context = static_cast<double>(config.model().context());
  // The check reports values that are out of range.
  if (config.tokens() == 0 || context < 1 || config.batch().global_sequences() < 1) return absl::OkStatus();
  const auto steps = static_cast<int64_t>(
      std::ceil(coordinator::StepsTaking(config.batch(), static_cast<double>(config.tokens()) / context)));
  if (draft.Given("steps") && config.steps() != steps) {
    return draft.Error(
        "tokens", absl::StrCat("makes ", steps, " steps, and steps is ", config.steps(), "; leave one of them out"));
  }
  config.set_steps(steps);
  return absl::OkStatus();
}

void FillOptimizerAndSchedule(ConfigDraft& draft) {
  v1::OptimizerConfig& optimizer = *draft.config.mutable_optimizer();
  // The check reports an unknown name.
  if (const absl::StatusOr<const optim::OptimizerRow*> row = optim::FindOptimizer(optimizer.name()); row.ok()) {
    for (const optim::OptimizerKey& key : (*row)->keys) {
      if (!draft.Given(absl::StrCat("optimizer.", key.name))) (optimizer.*key.set)(key.value_if_absent);
    }
  }
  v1::ScheduleConfig& schedule = *draft.config.mutable_schedule();
  if (!draft.Given("schedule.warmup_steps")) {
    schedule.set_warmup_steps(std::clamp<int64_t>(draft.config.steps() / 10, 0, 100));
  }
  if (schedule.decay() == "wsd" && !draft.Given("schedule.decay_steps")) {
    schedule.set_decay_steps(std::max<int64_t>(1, draft.config.steps() / 10));
  }
  if (!draft.Given("schedule.min_learning_rate")) schedule.set_min_learning_rate(optimizer.learning_rate() / 10);
}

void FillRun(ConfigDraft& draft) {
  v1::Config& config = draft.config;
  if (!draft.Given("evaluate.every_steps")) {
    config.mutable_evaluate()->set_every_steps(
        config.data().validation_size() + config.data().validation_samples() > 0 ? 100 : 0);
  }
  v1::RestartConfig& restart = *config.mutable_restart();
  // form_timeout_seconds once covered all three timeouts; it remains the default of the other two.
  const double form = restart.form_timeout_seconds();
  if (!draft.Given("restart.load_timeout_seconds")) restart.set_load_timeout_seconds(form);
  if (!draft.Given("restart.reconnect_timeout_seconds")) restart.set_reconnect_timeout_seconds(form);
  if (!draft.Given("divergence.spike_factor")) {
    config.mutable_divergence()->set_spike_factor(config.on_divergence() == "rollback" ? kSpikeFactor : 0);
  }
}

}  // namespace

absl::Status FillDefaults(ConfigDraft& draft) {
  for (const Key& key : Keys()) FillFromRow(key, draft);
  ZF_RETURN_IF_ERROR(FillModel(draft));
  ZF_RETURN_IF_ERROR(FillBatch(draft));
  ZF_RETURN_IF_ERROR(FillSteps(draft));
  FillOptimizerAndSchedule(draft);
  FillRun(draft);
  return absl::OkStatus();
}

}  // namespace zerofleet::cli
