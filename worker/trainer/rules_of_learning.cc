// Two sections of the table; see rules_of_learning.h.
#include "worker/trainer/rules_of_learning.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "worker/model/spec.h"

namespace zerofleet::trainer {
namespace {

using LearningConfig = v1::Config;

bool KeepsWeights(const LearningConfig& c) { return c.model().lora().rank() > 0 || c.model().freeze_size() > 0; }

// What is wrong with the configured names of tensors and products; empty if nothing is.
std::string TrainedError(const LearningConfig& c) {
  if (!KeepsWeights(c)) return "";
  const absl::Status status = model::ModelSpec::Create(c.model()).status();
  const std::string_view message(status.message().data(), status.message().size());
  const bool names = message.starts_with("model.freeze: ") || message.starts_with("model.lora.targets: ");
  return names ? std::string(message.substr(message.find(": ") + 2)) : "";
}

bool LacksRank(const LearningConfig& c) { return c.model().has_lora() && c.model().lora().rank() == 0; }

std::string NeedsRank(const LearningConfig&) { return "needs model.lora.rank, such as 16; or leave model.lora out"; }

// The smaller side of the largest product that has adapters: an adapter of that rank can be any matrix.
int64_t FullRank(const LearningConfig& c) {
  const absl::StatusOr<model::ModelSpec> spec = model::ModelSpec::Create(c.model());
  if (!spec.ok()) return INT64_MAX;
  int64_t full = 0;
  for (size_t i = 1; i < spec->tensors().size(); ++i) {
    const model::TensorSpec &a = spec->tensors()[i - 1], &b = spec->tensors()[i];
    if (!b.name.ends_with(".lora_B.weight")) continue;
    full = std::max(full, std::min(a.whole_shape.back(), b.whole_shape.front()));
  }
  return full;
}

}  // namespace

const std::vector<Rule>& TuningRules() {
  static const std::vector<Rule>& rules = *new std::vector<Rule>{
      {{"model.lora.alpha", "model.lora.rank"},
       [](const LearningConfig& c) { return LacksRank(c) && c.model().lora().alpha() > 0; },
       NeedsRank},
      {{"model.lora.targets", "model.lora.rank"},
       [](const LearningConfig& c) { return LacksRank(c) && !c.model().lora().targets().empty(); },
       NeedsRank},
      {{"model.lora.rank"},
       LacksRank,
       [](const LearningConfig&) -> std::string { return "must be above 0, such as 16; or leave model.lora out"; }},
      {{"model.freeze", "model.lora.rank"},
       [](const LearningConfig& c) { return c.model().freeze_size() > 0 && c.model().lora().rank() > 0; },
       [](const LearningConfig&) -> std::string {
         return "with model.lora everything but the adapters is frozen; leave it out";
       }},
      {{"init_from", "model.lora.rank", "model.freeze"},
       [](const LearningConfig& c) { return KeepsWeights(c) && c.init_from().empty(); },
       [](const LearningConfig& c) {
         return absl::StrCat("is missing; ", c.model().freeze_size() > 0 ? "model.freeze" : "model.lora",
                             " trains beside weights that stay as they are, so name a checkpoint that has them");
       }},
      {{"model.lora.rank", "buffers.bucket_bytes"},
       [](const LearningConfig& c) { return c.model().lora().rank() > 0 && c.buffers().bucket_bytes() > 0; },
       [](const LearningConfig& c) {
         return absl::StrCat("must be 0 with buffers.bucket_bytes, got ", c.model().lora().rank(),
                             "; adapters' gradients are small, so set buffers.bucket_bytes to 0");
       }},
      {{"model.freeze", "model.family"},
       [](const LearningConfig& c) { return c.model().freeze_size() > 0 && !TrainedError(c).empty(); },
       TrainedError},
      {{"model.lora.targets", "model.family"},
       [](const LearningConfig& c) { return !TrainedError(c).empty(); },
       TrainedError},
      {{"model.lora.rank", "model.lora.targets"},
       [](const LearningConfig& c) { return c.model().lora().rank() > 0 && c.model().lora().rank() > FullRank(c); },
       [](const LearningConfig& c) {
         return absl::StrCat("must be <= ", FullRank(c),
                             ", the smaller side of the largest product that has adapters, got ",
                             c.model().lora().rank());
       }},
  };
  return rules;
}

const std::vector<Rule>& LearningRules() {
  static const std::vector<Rule>& rules = *new std::vector<Rule>{
      {{"ema.decay"},
       [](const LearningConfig& c) { return c.ema().decay() >= 1; },
       [](const LearningConfig&) -> std::string { return "must be < 1, got 1: such an average never moves"; }},
      {{"ema.start_step", "ema.decay"},
       [](const LearningConfig& c) { return c.ema().decay() == 0 && c.ema().start_step() > 1; },
       [](const LearningConfig&) -> std::string { return "needs ema.decay, such as 0.999; or leave it out"; }},
      {{"evaluate.weights", "ema.decay"},
       [](const LearningConfig& c) { return c.evaluate().weights() == "ema" && c.ema().decay() == 0; },
       [](const LearningConfig&) -> std::string { return "ema needs ema.decay, such as 0.999"; }},
      {{"histograms.every_steps", "model.torch"},
       [](const LearningConfig& c) { return c.histograms().every_steps() > 0 && !c.model().torch().empty(); },
       [](const LearningConfig&) -> std::string { return "must be 0 with model.torch"; }},
      {{"schedule.decay_steps", "schedule.decay"},
       [](const LearningConfig& c) { return c.schedule().decay_steps() > 0 && c.schedule().decay() != "wsd"; },
       [](const LearningConfig& c) {
         return absl::StrCat("is a key of schedule.decay wsd, got ", c.schedule().decay());
       }},
      {{"schedule.decay_shape", "schedule.decay"},
       [](const LearningConfig& c) { return c.schedule().decay_shape() != "linear" && c.schedule().decay() != "wsd"; },
       [](const LearningConfig& c) {
         return absl::StrCat("is a key of schedule.decay wsd, got ", c.schedule().decay());
       }},
      {{"schedule.decay_steps", "steps", "schedule.warmup_steps"},
       [](const LearningConfig& c) {
         return c.schedule().decay() == "wsd" && c.schedule().decay_steps() > c.steps() - c.schedule().warmup_steps();
       },
       [](const LearningConfig& c) {
         return absl::StrCat("must be <= steps - schedule.warmup_steps, ", c.steps() - c.schedule().warmup_steps(),
                             ", got ", c.schedule().decay_steps());
       }},
      {{"schedule.cycle_steps", "schedule.decay"},
       [](const LearningConfig& c) { return (c.schedule().cycle_steps() > 0) != (c.schedule().decay() == "restarts"); },
       [](const LearningConfig& c) -> std::string {
         if (c.schedule().decay() == "restarts") return "is missing; schedule.decay restarts needs it, such as 1000";
         return absl::StrCat("is a key of schedule.decay restarts, got ", c.schedule().decay());
       }},
      {{"buffers.bucket_bytes", "loss.label_smoothing", "loss.z_loss"},
       [](const LearningConfig& c) {
         return c.buffers().bucket_bytes() > 0 && (c.loss().label_smoothing() > 0 || c.loss().z_loss() > 0);
       },
       [](const LearningConfig& c) {
         return absl::StrCat("must be 0 with loss.label_smoothing or loss.z_loss, got ", c.buffers().bucket_bytes());
       }},
      {{"evaluate.best", "data.validation", "evaluate.every_steps"},
       [](const LearningConfig& c) {
         const std::string& best = c.evaluate().best();
         const auto& sets = c.data().validation_sets();
         const bool known = best == "all" || std::find(sets.begin(), sets.end(), best) != sets.end();
         return !best.empty() && (!known || c.evaluate().every_steps() == 0);
       },
       [](const LearningConfig& c) {
         return absl::StrCat(
             "must be all, or the name of a set of data.validation, with evaluate.every_steps above 0, got \"",
             absl::CHexEscape(c.evaluate().best()), "\"");
       }},
      {{"data.validation", "evaluate.best"},
       [](const LearningConfig& c) {
         const auto& sets = c.data().validation_sets();
         return std::find(sets.begin(), sets.end(), "all") != sets.end();
       },
       [](const LearningConfig&) -> std::string {
         return "a set cannot be named all, which is every set's loss together (evaluate.best)";
       }},
      {{"evaluate.patience", "evaluate.best"},
       [](const LearningConfig& c) { return c.evaluate().patience() > 0 && c.evaluate().best().empty(); },
       [](const LearningConfig&) -> std::string {
         return "needs evaluate.best, such as all: the loss that is waited for";
       }},
      {{"checkpoint.every_steps", "evaluate.best", "evaluate.every_steps"},
       [](const LearningConfig& c) {
         return !c.evaluate().best().empty() && c.checkpoint().every_steps() % c.evaluate().every_steps() != 0;
       },
       [](const LearningConfig& c) {
         return absl::StrCat("must be a multiple of evaluate.every_steps, ", c.evaluate().every_steps(),
                             ", with evaluate.best, so that each checkpoint has a loss, got ",
                             c.checkpoint().every_steps());
       }},
  };
  return rules;
}

}  // namespace zerofleet::trainer
