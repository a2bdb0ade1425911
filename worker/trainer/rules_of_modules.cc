// What goes with model.torch; see rules_of_modules.h.
#include "worker/trainer/rules_of_modules.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "worker/model/foreign.h"

namespace zerofleet::trainer {
namespace {

using ModuleConfig = v1::Config;

bool IsModule(const ModuleConfig& c) { return model::IsForeign(c.model()); }

// A key of the model that only built-in families have, if one is set.
std::string KeyOfFamilies(const v1::ModelConfig& model) {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  model.GetReflection()->ListFields(model, &set);
  for (const google::protobuf::FieldDescriptor* const field : set) {
    const std::string& key = field->name();
    if (key != "family" && key != "context" && key != "torch" && key != "foreign") return key;
  }
  return "";
}

}  // namespace

const std::vector<Rule>& ModuleRules() {
  static const std::vector<Rule>& rules = *new std::vector<Rule>{
      {{"model.family", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) != (c.model().family() == "torch"); },
       [](const ModuleConfig& c) -> std::string {
         return IsModule(c) ? absl::StrCat("must be torch with model.torch, got ", c.model().family(), "; leave it out")
                            : "torch needs model.torch, MODULE:FUNCTION";
       }},
      {{"model.torch", "model.preset"},
       [](const ModuleConfig& c) { return IsModule(c) && !KeyOfFamilies(c.model()).empty(); },
       [](const ModuleConfig& c) {
         const std::string key = KeyOfFamilies(c.model());
         const bool chooses = key == "lora" || key == "freeze";
         return absl::StrCat("brings its own ",
                             chooses ? "choice of what is trained (requires_grad in build, PEFT)" : "sizes",
                             "; leave out model.", key);
       }},
      {{"model.torch"},
       [](const ModuleConfig& c) { return !IsModule(c) && c.model().has_foreign(); },
       [](const ModuleConfig&) -> std::string { return "is missing, and model.foreign is there, which describes it"; }},
      {{"data.train", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) && c.data().train_size() + c.data().validation_size() > 0; },
       [](const ModuleConfig&) -> std::string {
         return "must be left out, as data.validation, with model.torch, whose data are a dataset in Python";
       }},
      {{"data.samples", "model.torch"},
       [](const ModuleConfig& c) { return !IsModule(c) && c.data().samples() + c.data().validation_samples() > 0; },
       [](const ModuleConfig&) -> std::string { return "needs model.torch; leave it out"; }},
      {{"data.packing", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) && (c.data().packing() || c.data().loss_on() == "assistant"); },
       [](const ModuleConfig&) -> std::string {
         return "is not supported with model.torch, nor is data.loss_on: collate and loss decide both";
       }},
      {{"parallel.tensor", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) && c.parallel().tensor() > 1; },
       [](const ModuleConfig& c) {
         return absl::StrCat("must be 1 with model.torch, got ", c.parallel().tensor(),
                             ": a module is not cut into parts");
       }},
      {{"precision", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) && c.precision() == "fp16"; },
       [](const ModuleConfig&) -> std::string { return "fp16 is not supported with model.torch; use bf16 or fp32"; }},
      {{"activation.checkpointing", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) && c.activation().checkpointing() != "none"; },
       [](const ModuleConfig& c) {
         return absl::StrCat("must be none with model.torch, got ", c.activation().checkpointing(),
                             "; a module has torch.utils.checkpoint (transformers: gradient_checkpointing_enable)");
       }},
      {{"optimizer.name", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) && c.optimizer().name() == "muon"; },
       [](const ModuleConfig&) -> std::string {
         return "muon is not supported with model.torch, which does not say which matrices are products; use adamw";
       }},
      {{"loss.label_smoothing", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) && (c.loss().label_smoothing() > 0 || c.loss().z_loss() > 0); },
       [](const ModuleConfig&) -> std::string {
         return "must be 0 with model.torch, as loss.z_loss: the loss is the module's own";
       }},
      {{"buffers.bucket_bytes", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) && c.buffers().bucket_bytes() > 0; },
       [](const ModuleConfig& c) {
         return absl::StrCat("must be 0 with model.torch, got ", c.buffers().bucket_bytes());
       }},
      {{"offload.delayed_update.after_steps", "model.torch"},
       [](const ModuleConfig& c) {
         return c.offload().delayed_update().after_steps() > 0 && model::AssignsBuffers(c.model().foreign());
       },
       [](const ModuleConfig&) -> std::string {
         return "must be 0 where passes change buffers, which the next step's passes begin with";
       }},
      {{"offload.speculative", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) && c.offload().speculative(); },
       [](const ModuleConfig&) -> std::string {
         return "true is not supported with model.torch, whose loss tells late what it is divided by; use false";
       }},
      {{"init_from", "model.torch"},
       [](const ModuleConfig& c) { return IsModule(c) && c.model().has_foreign() && c.init_from().empty(); },
       [](const ModuleConfig&) -> std::string {
         return "is missing: a PyTorch module begins with weights, which the Python package writes";
       }},
  };
  return rules;
}

}  // namespace zerofleet::trainer
