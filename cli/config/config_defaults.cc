// Defaults, section by section; a default that depends on another key comes after it.
#include "cli/config/config_defaults.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "cli/config/nearest.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "worker/model/families.h"
#include "worker/model/presets.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::cli {
namespace {

constexpr int64_t kByteVocabulary = 256;
constexpr char kStopOnDivergence[] = "stop";
constexpr double kSpikeFactor = 2;  // of a run that goes back

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
  if (!draft.Given("model.family")) model.set_family(preset->family);
  if (!draft.Given("model.layers")) model.set_layers(preset->layers);
  if (!draft.Given("model.hidden")) model.set_hidden(preset->hidden);
  if (!draft.Given("model.heads")) model.set_heads(preset->heads);
  if (!draft.Given("model.context")) model.set_context(preset->context);
  if (!draft.Given("model.vocab")) model.set_vocab(preset->vocab);
  return absl::OkStatus();
}

// Sets the fields of the draft's model that neither its keys nor its preset have set.
void TakeWhatIsOpen(const v1::ModelConfig& stored, ConfigDraft& draft) {
  v1::ModelConfig& model = *draft.config.mutable_model();
  const google::protobuf::Reflection& reflection = *model.GetReflection();
  v1::ModelConfig taken = stored;
  taken.clear_preset();
  for (int i = 0; i < model.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *model.GetDescriptor()->field(i);
    const bool set = draft.Given(absl::StrCat("model.", field.name())) || reflection.HasField(model, &field);
    if (set) reflection.ClearField(&taken, &field);
  }
  model.MergeFrom(taken);
}

absl::Status FillModel(ConfigDraft& draft) {
  v1::ModelConfig& model = *draft.config.mutable_model();
  if (!model.preset().empty()) {
    ZF_RETURN_IF_ERROR(FillPreset(draft));
  } else if (!draft.stored) {
    for (const char* key : {"model.layers", "model.hidden", "model.heads", "model.context"}) {
      if (!draft.Given(key)) return draft.Error(key, "is missing; give it, or a model.preset such as gpt2-124m");
    }
    if (!draft.Given("model.family")) model.set_family(model::ModelFamilies().front()->name);
  }
  if (draft.stored) TakeWhatIsOpen(draft.stored->model, draft);
  if (!draft.Given("model.kv_heads") && model.kv_heads() == 0) model.set_kv_heads(model.heads());
  if (!draft.Given("model.intermediate") && model.intermediate() == 0) {
    // The check reports an unknown family and sizes that are out of range; here they must only not overflow.
    constexpr int64_t kLargest = int64_t{1} << 60;
    const absl::StatusOr<const model::ModelFamily*> found = model::FindModelFamily(model.family());
    const model::ModelFamily& family = found.ok() ? **found : *model::ModelFamilies().front();
    model.set_intermediate(family.default_intermediate(std::clamp(model.hidden(), -kLargest, kLargest)));
  }
  const bool token_files = draft.config.data().format() == "tokens_u16" || draft.config.data().format() == "tokens_u32";
  if (!draft.Given("model.vocab") && model.vocab() == 0) {
    if (token_files) {
      return draft.Error("model.vocab", "is missing; token files do not say how large the vocabulary is, so give it");
    }
    model.set_vocab(kByteVocabulary);
  }
  return absl::OkStatus();
}

void FillData(ConfigDraft& draft) {
  v1::DataConfig& data = *draft.config.mutable_data();
  if (!draft.Given("data.format")) data.set_format("auto");
  if (!draft.Given("data.tokenizer")) data.set_tokenizer("bytes");
  if (!draft.Given("data.on_change")) data.set_on_change("warn");
}

void FillParallelAndBatch(ConfigDraft& draft) {
  v1::ParallelConfig& parallel = *draft.config.mutable_parallel();
  if (!draft.Given("parallel.zero_stage")) parallel.set_zero_stage(2);
  if (!draft.Given("parallel.workers")) parallel.set_workers(1);
  if (!draft.Given("parallel.tensor")) parallel.set_tensor(1);
  if (!draft.Given("parallel.team")) parallel.set_team("auto");
  v1::BatchConfig& batch = *draft.config.mutable_batch();
  if (!draft.Given("batch.global_sequences")) batch.set_global_sequences(16);
  if (!draft.Given("batch.micro_sequences")) {
    // One forward pass per step, if the batch can be shared equally; if it cannot, the check reports it.
    const int64_t groups = std::max(1, parallel.workers() / std::max(1, parallel.tensor()));
    batch.set_micro_sequences(std::max<int64_t>(1, batch.global_sequences() / groups));
  }
}

void FillOptimizerAndSchedule(ConfigDraft& draft) {
  v1::OptimizerConfig& optimizer = *draft.config.mutable_optimizer();
  if (!draft.Given("optimizer.name")) optimizer.set_name(optim::Optimizers().front().name);
  // The check reports a name that is unknown.
  if (const absl::StatusOr<const optim::OptimizerRow*> row = optim::FindOptimizer(optimizer.name()); row.ok()) {
    for (const optim::OptimizerKey& key : (*row)->keys) {
      if (!draft.Given(absl::StrCat("optimizer.", key.name))) (optimizer.*key.set)(key.value_if_absent);
    }
  }
  if (!draft.Given("steps")) draft.config.set_steps(1000);
  v1::ScheduleConfig& schedule = *draft.config.mutable_schedule();
  if (!draft.Given("schedule.warmup_steps")) {
    schedule.set_warmup_steps(std::clamp<int64_t>(draft.config.steps() / 10, 0, 100));
  }
  if (!draft.Given("schedule.decay")) schedule.set_decay("cosine");
  if (!draft.Given("schedule.min_learning_rate")) schedule.set_min_learning_rate(optimizer.learning_rate() / 10);
}

void FillRun(ConfigDraft& draft) {
  v1::Config& config = draft.config;
  if (!draft.Given("precision")) config.set_precision("bf16");
  if (!draft.Given("activation.checkpointing")) config.mutable_activation()->set_checkpointing("none");
  if (!draft.Given("activation.offload")) config.mutable_activation()->set_offload("none");
  if (!draft.Given("reduce.every")) config.mutable_reduce()->set_every("micro_batch");
  v1::OffloadConfig& offload = *config.mutable_offload();
  if (!draft.Given("offload.optimizer")) offload.set_optimizer("none");
  if (!draft.Given("offload.fraction")) offload.set_fraction(1);
  if (!draft.Given("offload.parameters")) offload.set_parameters("none");
  if (!draft.Given("offload.delayed_update.after_steps")) offload.mutable_delayed_update()->set_after_steps(0);
  config.mutable_memory();
  v1::EvaluateConfig& evaluate = *config.mutable_evaluate();
  if (!draft.Given("evaluate.every_steps")) evaluate.set_every_steps(config.data().validation_size() > 0 ? 100 : 0);
  if (!draft.Given("evaluate.batches")) evaluate.set_batches(10);
  v1::CheckpointConfig& checkpoint = *config.mutable_checkpoint();
  if (!draft.Given("checkpoint.dir")) checkpoint.set_dir(kDefaultCheckpointDir);
  if (!draft.Given("checkpoint.every_steps")) checkpoint.set_every_steps(100);
  if (!draft.Given("checkpoint.keep")) checkpoint.set_keep(3);
  if (!draft.Given("checkpoint.replicate")) checkpoint.set_replicate(0);
  if (!draft.Given("checkpoint.snapshot_every_steps")) checkpoint.set_snapshot_every_steps(0);
  if (!draft.Given("checkpoint.snapshot")) checkpoint.set_snapshot("auto");
  if (!draft.Given("checkpoint.stall_timeout_seconds")) checkpoint.set_stall_timeout_seconds(120);
  if (!draft.Given("device")) config.set_device("auto");
  if (!draft.Given("collectives")) config.set_collectives("auto");
  v1::RestartConfig& restart = *config.mutable_restart();
  if (!draft.Given("restart.max_per_rank")) restart.set_max_per_rank(3);
  if (!draft.Given("restart.min_workers")) restart.set_min_workers(0);
  if (!draft.Given("restart.form_timeout_seconds")) restart.set_form_timeout_seconds(300);
  // One key was for all three once.
  const double form = restart.form_timeout_seconds();
  if (!draft.Given("restart.load_timeout_seconds")) restart.set_load_timeout_seconds(form);
  if (!draft.Given("restart.reconnect_timeout_seconds")) restart.set_reconnect_timeout_seconds(form);
  if (!draft.Given("restart.heartbeat_timeout_seconds")) restart.set_heartbeat_timeout_seconds(2);
  if (!draft.Given("restart.spares")) restart.set_spares(0);
  if (!draft.Given("restart.hang_timeout_seconds")) restart.set_hang_timeout_seconds(0);
  if (!draft.Given("restart.window_steps")) restart.set_window_steps(0);
  if (!draft.Given("seed")) config.set_seed(1);
  v1::BuffersConfig& buffers = *config.mutable_buffers();
  if (!draft.Given("buffers.bucket_bytes")) buffers.set_bucket_bytes(0);
  v1::IntegrityConfig& integrity = *config.mutable_integrity();
  if (!draft.Given("integrity.every_steps")) integrity.set_every_steps(0);
  if (!draft.Given("integrity.replay_every_steps")) integrity.set_replay_every_steps(0);
  if (!draft.Given("on_divergence")) config.set_on_divergence(kStopOnDivergence);
  v1::DivergenceConfig& divergence = *config.mutable_divergence();
  if (!draft.Given("divergence.spike_factor")) {
    divergence.set_spike_factor(config.on_divergence() == kStopOnDivergence ? 0 : kSpikeFactor);
  }
  if (!draft.Given("divergence.window_steps")) divergence.set_window_steps(kSpikeWindowSteps);
  if (!draft.Given("divergence.max_rollbacks")) divergence.set_max_rollbacks(kMostRollbacks);
}

}  // namespace

absl::Status FillDefaults(ConfigDraft& draft) {
  FillData(draft);
  ZF_RETURN_IF_ERROR(FillModel(draft));
  FillParallelAndBatch(draft);
  FillOptimizerAndSchedule(draft);
  FillRun(draft);
  return absl::OkStatus();
}

}  // namespace zerofleet::cli
