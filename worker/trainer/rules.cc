// The table; see rules.h. Sections are in the order of docs/configuration.md.
#include "worker/trainer/rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "coordinator/batch_shares.h"
#include "coordinator/placement.h"
#include "worker/data/mixture.h"
#include "worker/model/checkpointing.h"
#include "worker/model/families.h"
#include "worker/model/foreign.h"
#include "worker/model/spec.h"
#include "worker/trainer/rules_of_learning.h"
#include "worker/trainer/rules_of_modules.h"

namespace zerofleet::trainer {
namespace {

using Config = v1::Config;
using absl::StrCat;

constexpr double kLargestModel = 4e12;  // parameters; keeps every byte count far inside 64 bits
constexpr double kMostTokens = 4e18;    // tokens of a run; they are counted in 64 bits

// The divisor of `whole` that is closest to `wish`, the smaller of two; `wish` is at least 1.
int64_t NearestDivisor(int64_t whole, int64_t wish) {
  for (int64_t away = 0; away < whole; ++away) {
    if (wish > away && whole % (wish - away) == 0) return wish - away;
    if (whole % (wish + away) == 0) return wish + away;
  }
  return 1;
}

// About as many parameters as the model has.
double Parameters(const Config& c) {
  const v1::ModelConfig& model = c.model();
  const double hidden = static_cast<double>(model.hidden());
  const double block = 4 * hidden * hidden + 2 * hidden * static_cast<double>(model.intermediate());
  const double embedding = hidden * static_cast<double>(model.vocab() + model.context());
  return static_cast<double>(model.layers()) * block + embedding;
}

double Tokens(const Config& c) {
  return coordinator::SequencesInAll(c.batch(), static_cast<double>(c.steps())) *
         static_cast<double>(c.model().context());
}

bool GroupsQueries(const Config& c) {
  const absl::StatusOr<const model::ModelFamily*> family = model::FindModelFamily(c.model().family());
  return family.ok() && (*family)->grouped_queries();
}

bool IsRotary(const Config& c) {
  const absl::StatusOr<const model::ModelFamily*> family = model::FindModelFamily(c.model().family());
  return family.ok() && (*family)->rotary();
}

bool Scales(const Config& c) {
  const std::string& type = c.model().rope_scaling().type();
  return !type.empty() && type != "none";
}

bool HasLlamaKeys(const v1::ModelConfig& model) {
  return model.head_size() > 0 || model.rope_theta() > 0 || model.has_rope_scaling() || model.norm_epsilon() > 0 ||
         model.tied() || model.qkv_bias() || model.qk_norm();
}

bool HasEmptyPath(const google::protobuf::RepeatedPtrField<std::string>& paths) {
  return std::any_of(paths.begin(), paths.end(), [](const std::string& path) { return path.empty(); });
}

bool KeepsInputs(const Config& c) {
  const absl::StatusOr<model::Checkpointing> kind = model::ParseCheckpointing(c.activation().checkpointing());
  return kind.ok() && kind->keeps_inputs();
}

std::string NeedsInputs(const Config& c, const std::string& value) {
  return StrCat(value, " needs activation.checkpointing block or {every: n}, which keep inputs, got ",
                c.activation().checkpointing());
}

std::string NeedsTensorGroup(const Config& /*c*/) {
  return "true needs a tensor group to split over: parallel.tensor 2 or more, got 1";
}

bool OffloadsAnything(const Config& c) { return c.offload().optimizer() != "none"; }

std::string Fraction(const Config& c) {
  const double fraction = c.offload().fraction();
  return fraction == kFractionByPlan ? "auto" : absl::StrFormat("%.15g", fraction);
}

constexpr double kLeastBeta1ToLookAhead = 0.8;

bool Delays(const Config& c) { return c.offload().delayed_update().after_steps() > 0; }

std::string Delayed(const Config& c) {
  return StrCat("offload.delayed_update.after_steps ", c.offload().delayed_update().after_steps());
}

// The number of data-parallel ranks.
int64_t Groups(const Config& c) { return c.parallel().workers() / c.parallel().tensor(); }

// "8 or 16": the multiples of `of` around `value`, without 0.
std::string Around(int64_t value, int64_t of) {
  const int64_t below = value / of * of;
  return StrCat(below > 0 ? StrCat(below, " or ") : "", below + of);
}

std::string UnevenBatch(const Config& c) {
  const int64_t groups = Groups(c), global = c.batch().global_sequences(), micro = c.batch().micro_sequences();
  if (coordinator::SumsInSampleOrder(c)) {
    return StrCat(global, " is not a multiple of batch.micro_sequences, ", micro, "; ", Around(global, micro), " is");
  }
  const bool tensor = c.parallel().tensor() > 1;
  if (micro == std::max<int64_t>(1, global / groups)) {  // the default of batch.micro_sequences
    const std::string sharers =
        tensor ? StrCat(groups, " tensor groups of ", c.parallel().tensor(), " workers") : StrCat(groups, " workers");
    return StrCat(global, " cannot be shared equally by ", sharers, "; ", Around(global, groups), " can");
  }
  return StrCat(global, " is not a multiple of parallel.workers ", tensor ? "/ parallel.tensor " : "",
                "x batch.micro_sequences = ", groups, " x ", micro, " = ", groups * micro, "; ",
                Around(global, groups * micro), " is");
}

bool IsTorch(const Config& c) { return model::IsForeign(c.model()); }

const std::vector<Rule>& ModelAndData() {
  static const std::vector<Rule>& rules = *new std::vector<Rule>{
      {{"model.heads", "model.hidden"},
       [](const Config& c) { return !IsTorch(c) && !IsRotary(c) && c.model().hidden() % c.model().heads() != 0; },
       [](const Config& c) {
         return StrCat(c.model().heads(), " heads do not divide model.hidden, ", c.model().hidden(), "; ",
                       NearestDivisor(c.model().hidden(), c.model().heads()), " would");
       }},
      {{"model.kv_heads", "model.heads", "model.family"},
       [](const Config& c) { return !IsTorch(c) && !GroupsQueries(c) && c.model().kv_heads() != c.model().heads(); },
       [](const Config& c) {
         return StrCat("must equal model.heads, ", c.model().heads(), ", for ", c.model().family(), ", got ",
                       c.model().kv_heads(), "; leave it out");
       }},
      {{"model.kv_heads", "model.heads"},
       [](const Config& c) {
         return !IsTorch(c) && (c.model().kv_heads() < 1 || c.model().heads() % c.model().kv_heads() != 0);
       },
       [](const Config& c) {
         return StrCat("must divide model.heads, ", c.model().heads(), ", got ", c.model().kv_heads());
       }},
      {{"model.head_size", "model.heads", "model.hidden"},
       [](const Config& c) { return IsRotary(c) && (c.model().head_size() < 2 || c.model().head_size() % 2 != 0); },
       [](const Config& c) {
         return StrCat("must be even, for rotary positions, got ", c.model().head_size(),
                       " (left out it is model.hidden ", c.model().hidden(), " / model.heads ", c.model().heads(), ")");
       }},
      {{"model.family"},
       [](const Config& c) { return !IsRotary(c) && HasLlamaKeys(c.model()); },
       [](const Config& c) {
         return StrCat(
             "is ", c.model().family(),
             ", and head_size, rope_theta, rope_scaling, norm_epsilon, tied, qkv_bias and qk_norm are keys of "
             "llama; "
             "leave them out");
       }},
      {{"model.qk_norm", "model.qkv_bias"},
       [](const Config& c) { return c.model().qk_norm() && c.model().qkv_bias(); },
       [](const Config&) -> std::string {
         return "true does not go with model.qkv_bias: no model of the family has both";
       }},
      {{"model.rope_scaling.factor", "model.rope_scaling.type"},
       [](const Config& c) { return Scales(c) && c.model().rope_scaling().factor() < 1; },
       [](const Config& c) { return StrCat("must be >= 1, got ", c.model().rope_scaling().factor()); }},
      {{"model.rope_scaling.high_freq_factor", "model.rope_scaling.low_freq_factor"},
       [](const Config& c) {
         const v1::RopeScalingConfig& scaling = c.model().rope_scaling();
         return scaling.type() == "llama3" &&
                (scaling.low_freq_factor() <= 0 || scaling.original_max_position_embeddings() < 1 ||
                 scaling.high_freq_factor() <= scaling.low_freq_factor());
       },
       [](const Config& c) {
         const v1::RopeScalingConfig& scaling = c.model().rope_scaling();
         return StrCat("must be above low_freq_factor, ", scaling.low_freq_factor(),
                       ", and that above 0 with original_max_position_embeddings ",
                       scaling.original_max_position_embeddings(), " above 0, got ", scaling.high_freq_factor());
       }},
      {{"model"},
       [](const Config& c) { return Parameters(c) > kLargestModel; },
       [](const Config& c) {
         return StrCat("these sizes make about ", HumanCount(Parameters(c)), " parameters; at most ",
                       HumanCount(kLargestModel), " can be trained");
       }},
      {{"data.train"},
       [](const Config& c) { return !IsTorch(c) && c.data().train().empty(); },
       [](const Config&) -> std::string { return "must name at least one file or directory, such as [text.txt]"; }},
      {{"data.train"},
       [](const Config& c) { return HasEmptyPath(c.data().train()); },
       [](const Config&) -> std::string { return "contains an empty path"; }},
      {{"data.validation"},
       [](const Config& c) { return HasEmptyPath(c.data().validation()); },
       [](const Config&) -> std::string { return "contains an empty path"; }},
      {{"data.train_weights", "data.train"},
       [](const Config& c) { return !data::CheckWeights(c.data()).ok(); },
       [](const Config& c) { return std::string(data::CheckWeights(c.data()).message()); }},
      {{"data.validation_sets", "data.validation"},
       [](const Config& c) { return !data::CheckSetNames(c.data()).ok(); },
       [](const Config& c) { return std::string(data::CheckSetNames(c.data()).message()); }},
      {{"data.loss_on", "data.tokenizer"},
       [](const Config& c) { return c.data().loss_on() == "assistant" && c.data().tokenizer() == "bytes"; },
       [](const Config&) -> std::string { return "assistant needs a data.tokenizer other than bytes"; }},
      {{"model.vocab", "data.format"},
       [](const Config& c) {
         return !IsTorch(c) && c.data().format() == "text" && c.data().tokenizer() == "bytes" &&
                c.model().vocab() < 256;
       },
       [](const Config& c) { return StrCat("must be >= 256 for text in bytes, got ", c.model().vocab()); }},
      {{"evaluate.every_steps", "data.validation"},
       [](const Config& c) {
         return c.evaluate().every_steps() > 0 && c.data().validation().empty() &&
                !(IsTorch(c) && (c.data().validation_samples() > 0 || !c.model().has_foreign()));
       },
       [](const Config&) -> std::string { return "needs data.validation, or 0 for no evaluation"; }},
  };
  return rules;
}

// The first entry of batch.schedule that the ranks cannot share.
std::string UnevenSchedule(const Config& c) {
  Config one = c;
  one.mutable_batch()->clear_schedule();
  for (const int64_t sequences : c.batch().schedule()) {
    one.mutable_batch()->set_global_sequences(sequences);
    if (!coordinator::CanShare(one, Groups(c))) return UnevenBatch(one);
  }
  return "";
}

int64_t FewestLeaves(const Config& c) { return coordinator::LeavesOf(c, coordinator::LeastSequences(c.batch())); }

const std::vector<Rule>& ParallelAndBatch() {
  static const std::vector<Rule>& rules = *new std::vector<Rule>{
      {{"parallel.sequence", "parallel.tensor"},
       [](const Config& c) { return c.parallel().sequence() && c.parallel().tensor() == 1; },
       NeedsTensorGroup},
      {{"parallel.tensor", "parallel.workers"},
       [](const Config& c) { return c.parallel().workers() % c.parallel().tensor() != 0; },
       [](const Config& c) {
         return StrCat("must divide parallel.workers, ", c.parallel().workers(), ", got ", c.parallel().tensor());
       }},
      {{"parallel.tensor", "model.heads", "model.intermediate", "model.vocab"},
       [](const Config& c) {
         return c.parallel().tensor() > 1 && !model::CheckParts(c.model(), c.parallel().tensor()).ok();
       },
       [](const Config& c) { return std::string(model::CheckParts(c.model(), c.parallel().tensor()).message()); }},
      {{"parallel.sequence", "parallel.tensor", "model.context"},
       [](const Config& c) {
         return c.parallel().sequence() && !model::CheckSequences(c.model().context(), c.parallel().tensor()).ok();
       },
       [](const Config& c) {
         return std::string(model::CheckSequences(c.model().context(), c.parallel().tensor()).message());
       }},
      {{"integrity.replay_every_steps", "parallel.tensor"},
       [](const Config& c) { return c.integrity().replay_every_steps() > 0 && c.parallel().tensor() > 1; },
       [](const Config& c) {
         return StrCat("must be 0 with parallel.tensor ", c.parallel().tensor(),
                       ", whose ranks compute parts of a micro-batch, got ", c.integrity().replay_every_steps());
       }},
      {{"batch.schedule", "batch.schedule_steps"},
       [](const Config& c) { return !coordinator::ScheduleError(c.batch()).empty(); },
       [](const Config& c) { return coordinator::ScheduleError(c.batch()); }},
      {{"batch.schedule", "model.torch"},
       [](const Config& c) { return IsTorch(c) && c.batch().schedule_size() > 0; },
       [](const Config&) -> std::string {
         return "is not supported with model.torch, whose loops count steps of one size; leave it out";
       }},
      {{"batch.global_sequences", "batch.micro_sequences", "parallel.workers", "parallel.tensor"},
       [](const Config& c) { return !coordinator::CanShare(c, Groups(c)) && UnevenSchedule(c).empty(); },
       UnevenBatch},
      {{"batch.schedule", "batch.micro_sequences", "parallel.workers", "parallel.tensor"},
       [](const Config& c) { return !UnevenSchedule(c).empty(); },
       UnevenSchedule},
      {{"parallel.workers", "reduce.order", "batch.global_sequences", "batch.micro_sequences", "parallel.tensor"},
       [](const Config& c) { return coordinator::SumsInSampleOrder(c) && FewestLeaves(c) < Groups(c); },
       [](const Config& c) {
         return StrCat("a step has ", FewestLeaves(c), " micro-batches, too few for ", c.parallel().workers(),
                       " workers; at most ", FewestLeaves(c) * c.parallel().tensor(), " can share it");
       }},
      {{"parallel.team", "reduce.order", "parallel.workers", "parallel.tensor"},
       [](const Config& c) {
         const absl::StatusOr<int> team = coordinator::ConfiguredTeam(c.parallel());
         return coordinator::SumsInSampleOrder(c) && team.ok() && *team > 0 && *team < Groups(c);
       },
       [](const Config& c) {
         return StrCat("must be auto with reduce.order samples, which sums all ranks as one team, got ",
                       c.parallel().team());
       }},
      {{"reduce.every", "reduce.order"},
       [](const Config& c) { return coordinator::SumsInSampleOrder(c) && c.reduce().every() == "step"; },
       [](const Config&) -> std::string {
         return "step is not supported with reduce.order samples, which sums every micro-batch; use micro_batch";
       }},
      {{"buffers.bucket_bytes", "reduce.order"},
       [](const Config& c) { return coordinator::SumsInSampleOrder(c) && c.buffers().bucket_bytes() > 0; },
       [](const Config& c) { return StrCat("must be 0 with reduce.order samples, got ", c.buffers().bucket_bytes()); }},
      {{"collectives", "parallel.workers"},
       [](const Config& c) { return c.collectives() == "in_process" && c.parallel().workers() != 1; },
       [](const Config& c) {
         return StrCat("in_process supports a single worker, got ", c.parallel().workers(), "; use ucx");
       }},
      {{"collectives", "device"},
       [](const Config& c) { return c.collectives() == "nccl" && c.device() == "cpu"; },
       [](const Config&) -> std::string { return "nccl needs device cuda; use auto, ucx or in_process"; }},
  };
  return rules;
}

const std::vector<Rule>& Activations() {
  static const std::vector<Rule>& rules = *new std::vector<Rule>{
      {{"activation.offload", "activation.checkpointing"},
       [](const Config& c) { return c.activation().offload() != "none" && !KeepsInputs(c); },
       [](const Config& c) { return NeedsInputs(c, c.activation().offload()); }},
      {{"activation.partition", "activation.checkpointing"},
       [](const Config& c) { return c.activation().partition() && !KeepsInputs(c); },
       [](const Config& c) { return NeedsInputs(c, "true"); }},
      {{"activation.partition", "parallel.sequence"},
       [](const Config& c) { return c.activation().partition() && c.parallel().sequence(); },
       [](const Config&) -> std::string {
         return "must be false with parallel.sequence, which leaves no input whole; leave it out";
       }},
      {{"activation.partition", "parallel.tensor"},
       [](const Config& c) { return c.activation().partition() && c.parallel().tensor() == 1; },
       NeedsTensorGroup},
  };
  return rules;
}

const std::vector<Rule>& Offload() {
  static const std::vector<Rule>& rules = *new std::vector<Rule>{
      {{"offload.fraction", "offload.optimizer"},
       [](const Config& c) { return c.offload().fraction() != 1 && !OffloadsAnything(c); },
       [](const Config& c) { return StrCat("must be left out without offload.optimizer: cpu, got ", Fraction(c)); }},
      {{"offload.fraction", "memory.device_limit"},
       [](const Config& c) { return c.offload().fraction() == kFractionByPlan && c.memory().device_limit().empty(); },
       [](const Config&) -> std::string {
         return "auto needs memory.device_limit: as many states stay on the device as it has room for";
       }},
      {{"offload.optimizer", "offload.dir"},
       [](const Config& c) { return c.offload().optimizer() == "nvme" && c.offload().dir().empty(); },
       [](const Config&) -> std::string {
         return "nvme needs offload.dir: a directory on a fast disk of every host, such as /scratch/states";
       }},
      {{"offload.dir", "offload.optimizer"},
       [](const Config& c) { return c.offload().optimizer() != "nvme" && !c.offload().dir().empty(); },
       [](const Config& c) {
         return StrCat("must be left out with offload.optimizer ", c.offload().optimizer(), ", got \"",
                       c.offload().dir(), "\"; nvme uses it");
       }},
      {{"offload.parameters", "parallel.zero_stage"},
       [](const Config& c) { return c.offload().parameters() != "none" && c.parallel().zero_stage() != 3; },
       [](const Config& c) {
         return StrCat("cpu needs parallel.zero_stage 3, got ", c.parallel().zero_stage(),
                       ": in the other stages whole parameters are in use from step to step");
       }},
      {{"offload.parameters", "offload.optimizer"},
       [](const Config& c) { return c.offload().parameters() != "none" && !OffloadsAnything(c); },
       [](const Config&) -> std::string {
         return "cpu needs offload.optimizer: cpu, got none: the states are larger";
       }},
      {{"offload.parameters", "offload.fraction"},
       [](const Config& c) { return c.offload().parameters() != "none" && c.offload().fraction() != 1; },
       [](const Config& c) {
         return StrCat("cpu needs offload.fraction 1, got ", Fraction(c), ": the states that stay are larger");
       }},
      {{"offload.fraction", "optimizer.name", "device"},
       [](const Config& c) {
         return c.offload().fraction() != 1 && c.optimizer().name() == "muon" && c.device() == "cuda";
       },
       [](const Config& c) { return StrCat("must be 1 with muon on device cuda, got ", Fraction(c)); }},
      {{"offload.speculative", "offload.optimizer"},
       [](const Config& c) { return c.offload().speculative() && c.offload().optimizer() != "cpu"; },
       [](const Config& c) { return StrCat("true needs offload.optimizer: cpu, got ", c.offload().optimizer()); }},
      {{"offload.optimizer", "parallel.zero_stage"},
       [](const Config& c) { return OffloadsAnything(c) && c.parallel().zero_stage() == 0; },
       [](const Config& c) {
         return StrCat(c.offload().optimizer(),
                       " needs parallel.zero_stage 1, 2 or 3: in stage 0 every rank would copy and update the whole "
                       "model on its host");
       }},
      {{"offload.fraction", "offload.delayed_update.after_steps"},
       [](const Config& c) { return Delays(c) && c.offload().fraction() != 1; },
       [](const Config& c) {
         return StrCat("must be 1 with ", Delayed(c), ", got ", Fraction(c),
                       ": all parameters are updated late, so all states are on the host");
       }},
      {{"offload.delayed_update.after_steps", "offload.optimizer"},
       [](const Config& c) { return Delays(c) && !OffloadsAnything(c); },
       [](const Config& c) {
         return StrCat("must be 0 without offload.optimizer: cpu, got ", c.offload().delayed_update().after_steps());
       }},
      {{"offload.speculative", "offload.delayed_update.after_steps"},
       [](const Config& c) { return Delays(c) && c.offload().speculative(); },
       [](const Config& c) { return StrCat("must be false with ", Delayed(c), ": a late update knows its norm"); }},
      {{"offload.delayed_update.lookahead", "offload.delayed_update.after_steps", "optimizer.beta1"},
       [](const Config& c) {
         return Delays(c) && c.offload().delayed_update().lookahead() && c.optimizer().name() == "adamw" &&
                c.optimizer().beta1() < kLeastBeta1ToLookAhead;
       },
       [](const Config& c) {
         return StrCat("must be false with optimizer.beta1 below ", kLeastBeta1ToLookAhead, ", got ",
                       c.optimizer().beta1(), ": so little of a step is momentum that looking ahead gains nothing");
       }},
      {{"buffers.bucket_bytes", "offload.optimizer"},
       [](const Config& c) { return c.buffers().bucket_bytes() > 0 && OffloadsAnything(c); },
       [](const Config& c) {
         return StrCat("must be 0 with offload.optimizer ", c.offload().optimizer(),
                       ", whose gradients leave a unit at a time, got ", c.buffers().bucket_bytes());
       }},
  };
  return rules;
}

const std::vector<Rule>& CheckpointsAndRestarts() {
  static const std::vector<Rule>& rules = *new std::vector<Rule>{
      {{"checkpoint.dir"},
       [](const Config& c) { return c.checkpoint().dir().empty(); },
       [](const Config&) -> std::string { return "must name a directory, such as checkpoints"; }},
      {{"checkpoint.snapshot_every_steps", "offload.delayed_update.after_steps"},
       [](const Config& c) { return Delays(c) && c.checkpoint().snapshot_every_steps() > 0; },
       [](const Config& c) {
         return StrCat("must be 0 with ", Delayed(c), ", got ", c.checkpoint().snapshot_every_steps(),
                       ": a snapshot applies the gradient that is held back, so that the run's bits would depend on "
                       "when it is taken; set either to 0");
       }},
      {{"checkpoint.snapshot", "offload.optimizer", "offload.fraction"},
       [](const Config& c) {
         const double fraction = c.offload().fraction();
         return c.checkpoint().snapshot() == "stream" &&
                (c.offload().optimizer() == "nvme" || (fraction != 0 && fraction != 1));
       },
       [](const Config&) -> std::string {
         return "stream reads states that are in one memory: it needs offload.optimizer none or cpu, and "
                "offload.fraction 0 or 1; use auto or memory";
       }},
      {{"checkpoint.replicate", "checkpoint.snapshot_every_steps"},
       [](const Config& c) { return c.checkpoint().replicate() > 0 && c.checkpoint().snapshot_every_steps() == 0; },
       [](const Config& c) {
         return StrCat("needs checkpoint.snapshot_every_steps, which is 0; got ", c.checkpoint().replicate());
       }},
      {{"restart.spares", "restart.max_per_rank"},
       [](const Config& c) { return c.restart().spares() > 0 && c.restart().max_per_rank() == 0; },
       [](const Config& c) {
         return StrCat("must be 0 where restart.max_per_rank is 0 and the first loss ends the run, got ",
                       c.restart().spares());
       }},
      {{"restart.min_workers", "parallel.workers"},
       [](const Config& c) { return c.restart().min_workers() > c.parallel().workers(); },
       [](const Config& c) {
         return StrCat("must be <= parallel.workers, ", c.parallel().workers(), ", got ", c.restart().min_workers());
       }},
      {{"restart.min_workers", "parallel.tensor"},
       [](const Config& c) { return c.restart().min_workers() % c.parallel().tensor() != 0; },
       [](const Config& c) {
         return StrCat("must be a whole number of tensor groups of ", c.parallel().tensor(), " workers, got ",
                       c.restart().min_workers(), "; ", Around(c.restart().min_workers(), c.parallel().tensor()),
                       " is");
       }},
      {{"restart.hang_timeout_seconds", "restart.heartbeat_timeout_seconds"},
       [](const Config& c) {
         const double hang = c.restart().hang_timeout_seconds();
         return hang != 0 && hang < c.restart().heartbeat_timeout_seconds();
       },
       [](const Config& c) {
         return StrCat("must be 0, or restart.heartbeat_timeout_seconds to 1e6 seconds, got ",
                       c.restart().hang_timeout_seconds());
       }},
  };
  return rules;
}

// Rules for a check that compares ranks. With nothing to compare, the check would be a promise that is not kept.
template <int64_t (v1::IntegrityConfig::*kEvery)() const>
std::vector<Rule> Comparison(const char* key) {
  return {
      {{key, "parallel.workers"},
       [](const Config& c) { return (c.integrity().*kEvery)() > 0 && c.parallel().workers() == 1; },
       [](const Config&) -> std::string { return "must be 0 for a single worker: nothing is compared"; }},
      {{key, "parallel.workers", "parallel.tensor"},
       [](const Config& c) { return (c.integrity().*kEvery)() > 0 && c.parallel().workers() == c.parallel().tensor(); },
       [](const Config&) -> std::string {
         return "must be 0 for a single tensor group: nothing is kept twice to compare";
       }},
  };
}

const std::vector<Rule>& TheRun() {
  static const std::vector<Rule>& rules = *new std::vector<Rule>{
      {{"schedule.min_learning_rate", "optimizer.learning_rate"},
       [](const Config& c) {
         const double floor = c.schedule().min_learning_rate();
         return !(floor >= 0 && floor <= c.optimizer().learning_rate());
       },
       [](const Config& c) {
         return StrCat("must be >= 0 and <= optimizer.learning_rate, got ", c.schedule().min_learning_rate());
       }},
      {{"integrity.every_steps", "parallel.zero_stage"},
       [](const Config& c) { return c.integrity().every_steps() > 0 && c.parallel().zero_stage() == 3; },
       [](const Config&) -> std::string {
         return "must be 0 in parallel.zero_stage 3, where no parameter is kept twice";
       }},
      {{"steps", "batch.global_sequences", "model.context"},
       [](const Config& c) { return Tokens(c) > kMostTokens; },
       [](const Config& c) {
         return absl::StrFormat(
             "steps x batch.global_sequences x model.context = %.1e tokens; at most %.1e can be counted", Tokens(c),
             kMostTokens);
       }},
  };
  return rules;
}

}  // namespace

std::span<const Rule> Rules() {
  static const std::vector<Rule>& all = *[] {
    auto* rules = new std::vector<Rule>();
    for (const std::vector<Rule>& section :
         {ModuleRules(), ModelAndData(), TuningRules(), ParallelAndBatch(), Activations(),
          Comparison<&v1::IntegrityConfig::every_steps>("integrity.every_steps"),
          Comparison<&v1::IntegrityConfig::replay_every_steps>("integrity.replay_every_steps"), Offload(),
          CheckpointsAndRestarts(), TheRun(), LearningRules()}) {
      rules->insert(rules->end(), section.begin(), section.end());
    }
    return rules;
  }();
  return all;
}

const Rule* FirstViolated(const v1::Config& config, const std::set<std::string>& open) {
  for (const Rule& rule : Rules()) {
    const bool is_open =
        std::any_of(rule.keys.begin(), rule.keys.end(), [&open](const char* key) { return open.count(key) > 0; });
    if (!is_open && rule.violated(config)) return &rule;
  }
  return nullptr;
}

}  // namespace zerofleet::trainer
