// A walk over the message's descriptor, and the description of each key; see config_schema.h.
#include "cli/config/config_schema.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "cli/config/config_check.h"
#include "coordinator/placement.h"
#include "google/protobuf/descriptor.h"
#include "worker/model/presets.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

struct KeyText {
  const char *key, *text;
};

// What an editor shows for a key; docs/configuration.md says more.
constexpr KeyText kKeyTexts[] = {
    {"model", "A preset, or layers, hidden, heads and context, or a preset with some of them changed."},
    {"model.preset", "A named model."},
    {"model.family", "The preset's by default, otherwise gpt2."},
    {"model.layers", "Number of transformer blocks."},
    {"model.hidden", "Width of the model."},
    {"model.heads", "Attention heads; divides hidden."},
    {"model.kv_heads", "Key and value heads; equal to heads for gpt2."},
    {"model.intermediate", "Width of the feed-forward layer; 4 x hidden by default."},
    {"model.context", "Tokens in a sequence."},
    {"model.vocab", "Size of the vocabulary."},
    {"data", "What to train and to evaluate on."},
    {"data.train", "Files, or directories, which stand for the files in them."},
    {"data.validation", "Files or directories, needed by evaluate."},
    {"data.format", "How the files hold tokens."},
    {"data.tokenizer", "bytes: one token per byte."},
    {"data.on_change",
     "Where the training data are not those of the checkpoint that a run goes on from: go on and say so, or refuse."},
    {"parallel", "How the state is divided."},
    {"parallel.zero_stage", "0: nothing divided; 1: optimizer states; 2: gradients too; 3: parameters too."},
    {"parallel.workers", "Ranks in all."},
    {"parallel.tensor", "Tensor-parallel degree."},
    {"parallel.sequence", "With tensor: norms and residuals of a rank's part of the tokens alone."},
    {"parallel.team", "Ranks summed together first; auto: a node's, at most 8."},
    {"precision", "Type of parameters, activations and messages; the optimizer's states are fp32."},
    {"activation", "What the backward pass needs of the forward pass."},
    {"activation.checkpointing",
     "What the backward computes again instead of keeping it: nothing; every block; each block's norms and "
     "GELU; or n blocks at a time."},
    {"activation.partition", "The inputs that block and {every: n} keep are split over the tensor group."},
    {"activation.offload", "cpu: the inputs that block and {every: n} keep wait in host memory."},
    {"offload", "What leaves the device's memory for the host's."},
    {"offload.optimizer",
     "cpu: the optimizer's states are kept and updated on the host; nvme: kept in a file, updated on the host; stages "
     "1 to 3."},
    {"offload.dir", "With optimizer: nvme, the directory of the files; each rank has one of its own."},
    {"offload.fraction",
     "Part of the optimizer's states that leaves the device, 0 to 1; auto: as much as memory.device_limit asks for."},
    {"offload.parameters",
     "cpu: a rank's parameters rest in host memory, and a unit is on the device while it is used; stage 3."},
    {"offload.delayed_update", "Updates one step late."},
    {"offload.delayed_update.after_steps", "Steps before updates are delayed by one; 0: none is."},
    {"offload.speculative",
     "Updates on the host before the gradient's norm is known; undone where it is clipped or overflows."},
    {"memory", "What a worker may reserve."},
    {"memory.device_limit", "Of device memory, such as 4GiB; no limit by default."},
    {"memory.host_limit", "Of host memory, such as 16GiB; no limit by default."},
    {"buffers", "Buffers whose size does not depend on the model."},
    {"buffers.bucket_bytes",
     "Gradients are reduced in buckets of so many bytes, at least 65536; 0: a unit of the model at a time."},
    {"reduce", "When gradients are summed over the workers."},
    {"reduce.every",
     "micro_batch: stages 2 and 3 keep a worker's part of the sum; step: they keep whole gradients and send them "
     "once."},
    {"batch", "Sequences per step and per forward pass."},
    {"batch.global_sequences",
     "Sequences per optimizer step, over all workers; a multiple of workers x micro_sequences."},
    {"batch.micro_sequences", "Sequences per worker per forward pass; global_sequences / workers by default."},
    {"optimizer", "AdamW, or SGD with momentum, and its settings."},
    {"optimizer.name", "The optimizer; adamw by default."},
    {"optimizer.learning_rate", "The peak, after warm-up; > 0. By default 3.0e-4 with adamw and 0.1 with sgd."},
    {"optimizer.beta1", "adamw: decay of the first moment; >= 0 and < 1."},
    {"optimizer.beta2", "adamw: decay of the second moment; >= 0 and < 1."},
    {"optimizer.epsilon", "adamw: > 0."},
    {"optimizer.weight_decay", "On matrices and the token embedding; >= 0. By default 0.1 with adamw and 0 with sgd."},
    {"optimizer.grad_clip", "Largest global L2 norm of the gradient; 0: no clipping."},
    {"optimizer.momentum", "sgd: >= 0 and < 1."},
    {"schedule", "The learning rate over the steps."},
    {"schedule.warmup_steps", "Steps of linear warm-up; a tenth of steps, at most 100, by default."},
    {"schedule.decay", "Shape of the decay after the warm-up."},
    {"schedule.min_learning_rate", "Where the decay ends; a tenth of learning_rate by default."},
    {"steps", "Optimizer steps in all, those before a resume included."},
    {"evaluate", "Validation loss during training."},
    {"evaluate.every_steps", "Steps between evaluations; 0: never."},
    {"evaluate.batches", "Global batches per evaluation."},
    {"checkpoint", "Where and when the state is saved."},
    {"checkpoint.dir", "Directory of checkpoints, logs and the local coordinator's state."},
    {"checkpoint.every_steps", "Steps between checkpoints; 0: only at the end."},
    {"checkpoint.keep", "Committed checkpoints to keep."},
    {"checkpoint.replicate", "1: another rank, on another node if possible, keeps copies of each rank's snapshots."},
    {"checkpoint.snapshot_every_steps", "Steps between snapshots in host memory; 0: none."},
    {"checkpoint.snapshot",
     "What a save is written from: memory, a copy of the states; stream, the states themselves, for which the next "
     "update waits."},
    {"checkpoint.stall_timeout_seconds",
     "A rank whose write of a shard gets no further for so long is lost, and a commit that gets no further is told; 0: "
     "never."},
    {"device", "Where to compute."},
    {"collectives", "What carries the collectives."},
    {"restart", "Forming the fleet and losing workers."},
    {"restart.max_per_rank", "How often each rank may be lost and replaced before the run ends."},
    {"restart.min_workers", "Fewest workers to continue with; 0: as many as asked for."},
    {"restart.form_timeout_seconds", "How long the fleet may take to form, and how long it waits for a replacement."},
    {"restart.load_timeout_seconds",
     "A rank that has not loaded so long after the others is lost; left out: form_timeout_seconds."},
    {"restart.reconnect_timeout_seconds",
     "A worker gives up after so long without a coordinator; left out: form_timeout_seconds."},
    {"restart.heartbeat_timeout_seconds", "A worker that is silent for so long is lost."},
    {"restart.hang_timeout_seconds",
     "A worker for which the others wait in a collective for so long is lost; 0: 30 heartbeat timeouts or 10 steps."},
    {"restart.spares", "Workers beyond parallel.workers that wait to take a lost rank's place."},
    {"restart.window_steps", "max_per_rank counts the losses of so many steps; 0: of the whole run."},
    {"init_from",
     "A checkpoint's step directory: a run without a checkpoint of its own begins with its weights, and has its "
     "model."},
    {"seed", "Of the weights and of the order of the data."},
    {"integrity", "Finding numbers that went wrong in silence."},
    {"integrity.every_steps", "Steps between comparisons of the ranks' copies of the parameters; 0: never."},
    {"integrity.replay_every_steps",
     "Steps between those at which another rank computes a rank's first micro-batch again; 0: never."},
    {"on_divergence",
     "After a loss that is not finite, or a spike: end the run, or go back and leave out what led there."},
    {"divergence", "When training has diverged, and how often it may go back."},
    {"divergence.spike_factor",
     "A loss of more than so many times the median of the steps before is a spike; 0: none is. By default 2 with "
     "on_divergence: rollback, otherwise 0."},
    {"divergence.window_steps", "Steps of that median; before there are so many, no loss is a spike."},
    {"divergence.max_rollbacks", "How often to go back before a step beyond those that diverged is committed."},
};

Json FieldSchema(const FieldDescriptor& field, const std::string& key);

Json SectionSchema(const Descriptor& descriptor, const std::string& section) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  Json& properties = schema["properties"] = Json::object();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    properties[field.name()] = FieldSchema(field, section.empty() ? field.name() : section + "." + field.name());
  }
  return schema;
}

Json ScalarSchema(const FieldDescriptor& field, const std::string& key) {
  if (key == "offload.fraction") {
    return {{"anyOf", {{{"type", "number"}, {"minimum", 0}, {"maximum", 1}}, {{"enum", {"auto"}}}}}};
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) return {{"type", "number"}};
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return {{"type", "boolean"}};
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    Json schema = {{"type", "integer"}};
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64) schema["minimum"] = 0;
    for (const IntegerLimits& limits : ConfigIntegerLimits()) {
      if (limits.key == key) schema.update({{"minimum", limits.smallest}, {"maximum", limits.largest}});
    }
    return schema;
  }
  if (key == "parallel.team") {
    return {{"anyOf",
             {{{"type", "string"}, {"pattern", "^(auto|[1-9][0-9]*)$"}},
              {{"type", "integer"}, {"minimum", 1}, {"maximum", coordinator::kMostRanks}}}}};
  }
  if (key == "memory.device_limit" || key == "memory.host_limit") {
    return {{"type", "string"}, {"pattern", "^([0-9]+(\\.[0-9]+)? ?[KMGT]iB)?$"}};
  }
  if (key == "activation.checkpointing") {
    const Json every = {{"type", "object"},
                        {"additionalProperties", false},
                        {"required", {"every"}},
                        {"properties", {{"every", {{"type", "integer"}, {"minimum", 1}, {"maximum", 10'000}}}}}};
    return {{"anyOf", {{{"type", "string"}, {"pattern", "^(none|block|selective|\\{every: [1-9][0-9]*\\})$"}}, every}}};
  }
  Json schema = {{"type", "string"}};
  for (const ConfigChoices& choices : ConfigChoiceKeys()) {
    if (choices.key == key) schema["enum"] = choices.choices;
  }
  if (key == "model.preset") {
    for (const model::ModelPreset& preset : model::ModelPresets()) schema["enum"].push_back(preset.name);
  }
  return schema;
}

Json FieldSchema(const FieldDescriptor& field, const std::string& key) {
  const auto text = std::find_if(std::begin(kKeyTexts), std::end(kKeyTexts),
                                 [&](const KeyText& row) { return std::string_view(row.key) == key; });
  Json schema;
  if (text != std::end(kKeyTexts)) schema["description"] = text->text;
  if (field.message_type() != nullptr) {
    schema.update(SectionSchema(*field.message_type(), key));
  } else if (field.is_repeated()) {
    schema.update({{"type", "array"}, {"items", ScalarSchema(field, key)}});
  } else {
    schema.update(ScalarSchema(field, key));
  }
  return schema;
}

void CollectLeaves(const Descriptor& descriptor, const std::string& section, std::vector<std::string>& keys) {
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const std::string key = section.empty() ? field.name() : section + "." + field.name();
    if (field.message_type() != nullptr) {
      CollectLeaves(*field.message_type(), key, keys);
    } else {
      keys.push_back(key);
    }
  }
}

}  // namespace

std::vector<std::string> ConfigKeys() {
  std::vector<std::string> keys;
  CollectLeaves(*v1::Config::descriptor(), "", keys);
  return keys;
}

Json ConfigSchema() {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "Zerofleet configuration"},
                 {"description", "One training run; see docs/configuration.md."}};
  schema.update(SectionSchema(*v1::Config::descriptor(), ""));
  return schema;
}

std::string ConfigSchemaText() { return ConfigSchema().dump(2) + "\n"; }

}  // namespace zerofleet::cli
