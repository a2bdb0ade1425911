// The tables of ranges and choices, and the checks between keys; see config_check.h.
#include "cli/config/config_check.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/config/config_defaults.h"
#include "cli/config/key_words.h"
#include "cli/config/nearest.h"
#include "cli/config/planned_fraction.h"
#include "coordinator/config_digest.h"
#include "coordinator/placement.h"
#include "worker/device/device.h"
#include "worker/model/checkpointing.h"
#include "worker/model/families.h"
#include "worker/model/spec.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::cli {
namespace {

constexpr int64_t kBillion = 1'000'000'000;
constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kLeastBucketBytes = 65'536, kMostBucketBytes = int64_t{1} << 34;
constexpr int64_t kBucketAlignment = 1024;
constexpr double kLargestModel = 4e12;  // parameters; keeps every byte count far inside 64 bits
constexpr double kMostTokens = 4e18;    // of a run; they are counted in 64 bits

struct IntegerRow {
  const char* key;
  int64_t value, smallest, largest;
};

std::vector<IntegerRow> IntegerRows(const v1::Config& c) {
  return {
      {"model.layers", c.model().layers(), 1, kMostLayers},
      {"model.hidden", c.model().hidden(), 1, 1'000'000},
      {"model.heads", c.model().heads(), 1, 1'000'000},
      {"model.kv_heads", c.model().kv_heads(), 1, 1'000'000},
      {"model.intermediate", c.model().intermediate(), 1, 10'000'000},
      {"model.context", c.model().context(), 1, 10'000'000},
      {"model.vocab", c.model().vocab(), 1, 100'000'000},
      {"parallel.zero_stage", c.parallel().zero_stage(), 0, 3},
      {"parallel.workers", c.parallel().workers(), 1, coordinator::kMostRanks},
      {"parallel.tensor", c.parallel().tensor(), 1, coordinator::kMostRanks},
      {"buffers.bucket_bytes", c.buffers().bucket_bytes(), 0, kMostBucketBytes},
      {"batch.global_sequences", c.batch().global_sequences(), 1, kBillion},
      {"batch.micro_sequences", c.batch().micro_sequences(), 1, kBillion},
      {"steps", c.steps(), 1, 1000 * kBillion},
      {"schedule.warmup_steps", c.schedule().warmup_steps(), 0, 1000 * kBillion},
      {"offload.delayed_update.after_steps", c.offload().delayed_update().after_steps(), 0, 1000 * kBillion},
      {"evaluate.every_steps", c.evaluate().every_steps(), 0, 1000 * kBillion},
      {"evaluate.batches", c.evaluate().batches(), 1, kBillion},
      {"checkpoint.every_steps", c.checkpoint().every_steps(), 0, 1000 * kBillion},
      {"checkpoint.keep", c.checkpoint().keep(), 1, kBillion},
      {"checkpoint.replicate", c.checkpoint().replicate(), 0, 1},
      {"checkpoint.snapshot_every_steps", c.checkpoint().snapshot_every_steps(), 0, 1000 * kBillion},
      {"restart.max_per_rank", c.restart().max_per_rank(), 0, 1'000'000},
      {"restart.min_workers", c.restart().min_workers(), 0, coordinator::kMostRanks},
      {"restart.spares", c.restart().spares(), 0, coordinator::kMostRanks},
      {"restart.window_steps", c.restart().window_steps(), 0, 1000 * kBillion},
      {"integrity.every_steps", c.integrity().every_steps(), 0, 1000 * kBillion},
      {"integrity.replay_every_steps", c.integrity().replay_every_steps(), 0, 1000 * kBillion},
      {"divergence.window_steps", c.divergence().window_steps(), 1, 1000},
      {"divergence.max_rollbacks", c.divergence().max_rollbacks(), 1, 1000},
  };
}

struct NumberRow {
  const char* key;
  double value;
  bool fits;
  const char* wanted;
};

std::vector<NumberRow> NumberRows(const v1::Config& c) {
  const double floor = c.schedule().min_learning_rate();
  const double form = c.restart().form_timeout_seconds(), heartbeat = c.restart().heartbeat_timeout_seconds();
  const double load = c.restart().load_timeout_seconds(), reconnect = c.restart().reconnect_timeout_seconds();
  const double hang = c.restart().hang_timeout_seconds(), spike = c.divergence().spike_factor();
  const double stall = c.checkpoint().stall_timeout_seconds();
  return {
      {"schedule.min_learning_rate", floor, floor >= 0 && floor <= c.optimizer().learning_rate(),
       "must be >= 0 and <= optimizer.learning_rate"},
      {"restart.form_timeout_seconds", form, form > 0 && form <= 1e6, "must be > 0 and <= 1e6 seconds"},
      {"restart.load_timeout_seconds", load, load > 0 && load <= 1e6, "must be > 0 and <= 1e6 seconds"},
      {"restart.reconnect_timeout_seconds", reconnect, reconnect > 0 && reconnect <= 1e6,
       "must be > 0 and <= 1e6 seconds"},
      {"restart.heartbeat_timeout_seconds", heartbeat, heartbeat >= 0.1 && heartbeat <= 1e6,
       "must be 0.1 to 1e6 seconds"},
      {"restart.hang_timeout_seconds", hang, hang == 0 || (hang >= heartbeat && hang <= 1e6),
       "must be 0, or restart.heartbeat_timeout_seconds to 1e6 seconds"},
      {"checkpoint.stall_timeout_seconds", stall, stall == 0 || (stall >= 1 && stall <= 1e6),
       "must be 0, or 1 to 1e6 seconds"},
      {"divergence.spike_factor", spike, spike == 0 || (spike > 1 && spike <= 1e6), "must be 0, or > 1 and <= 1e6"},
  };
}

struct ChoiceRow {
  const char* key;
  std::string value;
  std::vector<std::string> choices;
  std::vector<std::string> absent;  // names that the schema knows and this build does not support
  const char* absent_reason = "";
};

constexpr char kNoCuda[] = "is not available: this build has no CUDA", kNotSupported[] = "is not supported";

bool BuiltWithCuda() {
  const std::vector<std::string> kinds = device::DeviceKindsBuilt();
  return std::find(kinds.begin(), kinds.end(), "cuda") != kinds.end();
}

ChoiceRow DeviceRow(const v1::Config& c) {
  if (BuiltWithCuda()) return {"device", c.device(), {"auto", "cpu", "cuda"}, {}};
  return {"device", c.device(), {"auto", "cpu"}, {"cuda"}, kNoCuda};
}

// Whose number CheckActivation looks at.
bool IsEvery(const std::string& checkpointing) { return absl::StartsWith(checkpointing, "{every"); }

ChoiceRow CheckpointingRow(const v1::Config& c) {
  std::string value = c.activation().checkpointing();
  if (IsEvery(value)) value = model::kEveryWord;
  return {"activation.checkpointing", std::move(value), model::CheckpointingWords(), {}};
}

ChoiceRow CollectivesRow(const v1::Config& c) {
  if (!BuiltWithCuda()) return {"collectives", c.collectives(), {"auto", "ucx", "in_process"}, {"nccl"}, kNoCuda};
  if (c.device() != "cpu") return {"collectives", c.collectives(), {"auto", "ucx", "in_process", "nccl"}, {}};
  return {"collectives", c.collectives(), {"auto", "ucx", "in_process"}, {"nccl"}, "needs device cuda"};
}

std::vector<ChoiceRow> ChoiceRows(const v1::Config& c) {
  return {
      {"model.family", c.model().family(), model::ModelFamilyNames(), {"llama"}, kNotSupported},
      {"data.format", c.data().format(), {"auto", "text", "tokens_u16", "tokens_u32"}, {"megatron"}, kNotSupported},
      {"data.on_change", c.data().on_change(), {"warn", "refuse"}, {}},
      {"precision", c.precision(), {"bf16", "fp16", "fp32"}, {}},
      CheckpointingRow(c),
      {"activation.offload", c.activation().offload(), {"none", "cpu"}, {}},
      {"reduce.every", c.reduce().every(), {"micro_batch", "step"}, {}},
      {"offload.optimizer", c.offload().optimizer(), {"none", "cpu", "nvme"}, {}},
      {"offload.parameters", c.offload().parameters(), {"none", "cpu"}, {}},
      {"checkpoint.snapshot", c.checkpoint().snapshot(), {"auto", "memory", "stream"}, {}},
      {"optimizer.name", c.optimizer().name(), optim::OptimizerNames(), {}},
      {"schedule.decay", c.schedule().decay(), {"cosine", "linear", "constant"}, {}},
      {"on_divergence", c.on_divergence(), {"stop", "rollback"}, {}},
      DeviceRow(c),
      CollectivesRow(c),
  };
}

absl::Status CheckIntegers(const ConfigDraft& draft) {
  for (const IntegerRow& row : IntegerRows(draft.config)) {
    if (row.value >= row.smallest && row.value <= row.largest) continue;
    return draft.Error(row.key, absl::StrCat("must be ", row.smallest, " to ", row.largest, ", got ", row.value));
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const ConfigDraft& draft) {
  for (const NumberRow& row : NumberRows(draft.config)) {
    if (!row.fits) return draft.Error(row.key, absl::StrCat(row.wanted, ", got ", row.value));
  }
  return absl::OkStatus();
}

absl::Status CheckChoices(const ConfigDraft& draft) {
  for (const ChoiceRow& row : ChoiceRows(draft.config)) {
    for (const std::string& name : row.absent) {
      if (row.value != name) continue;
      return draft.Error(row.key, absl::StrCat(name, " ", row.absent_reason, "; use ", Alternatives(row.choices)));
    }
    bool known = false;
    for (const std::string& choice : row.choices) known = known || choice == row.value;
    if (known) continue;
    const std::string_view meant = ValueMeant(row.value);
    const bool is_choice = std::find(row.choices.begin(), row.choices.end(), meant) != row.choices.end();
    // A word for an unsupported feature is not a misspelling of another.
    const std::string nearest = is_choice ? std::string(meant) : meant.empty() ? Nearest(row.value, row.choices) : "";
    return draft.Error(
        row.key, absl::StrCat("must be ", Alternatives(row.choices), ", got \"", absl::CHexEscape(row.value), "\"",
                              nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
  }
  return absl::OkStatus();
}

absl::Status CheckActivation(const ConfigDraft& draft) {
  const v1::ActivationConfig& activation = draft.config.activation();
  const std::string& value = activation.checkpointing();
  const absl::StatusOr<model::Checkpointing> checkpointing = model::ParseCheckpointing(value);
  if (!checkpointing.ok()) {
    return draft.Error("activation.checkpointing", absl::StrCat("must be {every: n} with n of 1 to ", kMostLayers,
                                                                ", got \"", absl::CHexEscape(value), "\""));
  }
  const std::string inputs =
      absl::StrCat(" needs activation.checkpointing block or {every: n}, which keep inputs, got ", value);
  if (activation.offload() != "none" && !checkpointing->keeps_inputs()) {
    return draft.Error("activation.offload", absl::StrCat(activation.offload(), inputs));
  }
  if (!activation.partition()) return absl::OkStatus();
  if (!checkpointing->keeps_inputs()) return draft.Error("activation.partition", absl::StrCat("true", inputs));
  if (draft.config.parallel().sequence()) {
    return draft.Error("activation.partition",
                       "must be false with parallel.sequence, which leaves no input whole; leave it out");
  }
  if (draft.config.parallel().tensor() > 1) return absl::OkStatus();
  return draft.Error("activation.partition",
                     "true needs a tensor group to split over: parallel.tensor 2 or more, got 1");
}

// The keys of the chosen optimizer are in range, and no key of another is given: it would have no effect. A complete
// configuration, as `train` writes it for its processes, has them all: those that do not apply are 0.
absl::Status CheckOptimizer(const ConfigDraft& draft) {
  const v1::OptimizerConfig& config = draft.config.optimizer();
  ZF_ASSIGN_OR_RETURN(const optim::OptimizerRow* const row, optim::FindOptimizer(config.name()));
  for (const optim::OptimizerRow& other : optim::Optimizers()) {
    for (const optim::OptimizerKey& key : other.keys) {
      const std::string name = absl::StrCat("optimizer.", key.name);
      if (!draft.Given(name) || row->HasKey(key.name) || (config.*key.get)() == 0) continue;
      return draft.Error(
          name, absl::StrCat("is a key of ", other.name, ", and optimizer.name is ", config.name(), "; leave it out"));
    }
  }
  for (const optim::OptimizerKey& key : row->keys) {
    const double value = (config.*key.get)();
    if (!key.fits(value)) {
      return draft.Error(absl::StrCat("optimizer.", key.name), absl::StrCat(key.wanted, ", got ", value));
    }
  }
  return absl::OkStatus();
}

// The divisor of `whole` that is closest to `wish`, the smaller of two; `wish` may be anything from 1.
int64_t NearestDivisor(int64_t whole, int64_t wish) {
  for (int64_t away = 0; away < whole; ++away) {
    if (wish > away && whole % (wish - away) == 0) return wish - away;
    if (whole % (wish + away) == 0) return wish + away;
  }
  return 1;
}

absl::Status CheckModel(const ConfigDraft& draft) {
  const v1::ModelConfig& model = draft.config.model();
  if (model.hidden() % model.heads() != 0) {
    return draft.Error("model.heads", absl::StrCat(model.heads(), " heads do not divide model.hidden, ", model.hidden(),
                                                   "; ", NearestDivisor(model.hidden(), model.heads()), " would"));
  }
  ZF_ASSIGN_OR_RETURN(const model::ModelFamily* family, model::FindModelFamily(model.family()));
  if (!family->grouped_queries() && model.kv_heads() != model.heads()) {
    return draft.Error("model.kv_heads", absl::StrCat("must equal model.heads, ", model.heads(), ", for ", family->name,
                                                      ", got ", model.kv_heads(), "; leave it out"));
  }
  const double hidden = static_cast<double>(model.hidden());
  const double block = 4 * hidden * hidden + 2 * hidden * static_cast<double>(model.intermediate());
  const double embedding = hidden * static_cast<double>(model.vocab() + model.context());
  const double parameters = static_cast<double>(model.layers()) * block + embedding;
  if (parameters > kLargestModel) {
    return draft.Error("model", absl::StrCat("these sizes make about ", HumanCount(parameters), " parameters; at most ",
                                             HumanCount(kLargestModel), " can be trained"));
  }
  return absl::OkStatus();
}

// The processes of a run get the configuration as this JSON, and the messages between them have room for so much.
absl::Status CheckSize(const ConfigDraft& draft) {
  const auto bytes = static_cast<int64_t>(TextOf(draft.config).size());
  if (bytes <= coordinator::kMostConfigBytes) return absl::OkStatus();
  const v1::DataConfig& data = draft.config.data();
  return draft.Error(
      data.train_size() < data.validation_size() ? "data.validation" : "data.train",
      absl::StrCat("the complete configuration has ", bytes, " bytes as JSON; at most ", coordinator::kMostConfigBytes,
                   " are allowed: name a directory instead of its files"));
}

absl::Status CheckData(const ConfigDraft& draft) {
  const v1::DataConfig& data = draft.config.data();
  if (data.train().empty()) {
    return draft.Error("data.train", "must name at least one file or directory, such as [text.txt]");
  }
  for (const std::string& path : data.train()) {
    if (path.empty()) return draft.Error("data.train", "contains an empty path");
  }
  for (const std::string& path : data.validation()) {
    if (path.empty()) return draft.Error("data.validation", "contains an empty path");
  }
  if (data.tokenizer() != "bytes") {
    return draft.Error("data.tokenizer", absl::StrCat("must be bytes, got \"", data.tokenizer(),
                                                      "\"; sentencepiece models are not supported"));
  }
  if (data.format() == "text" && draft.config.model().vocab() < 256) {
    return draft.Error("model.vocab",
                       absl::StrCat("must be >= 256 for text in bytes, got ", draft.config.model().vocab()));
  }
  if (draft.config.evaluate().every_steps() > 0 && data.validation().empty()) {
    return draft.Error("evaluate.every_steps", "needs data.validation, or 0 for no evaluation");
  }
  return absl::OkStatus();
}

absl::Status CheckTensorGroups(const ConfigDraft& draft) {
  const v1::Config& config = draft.config;
  const int64_t tensor = config.parallel().tensor(), replays = config.integrity().replay_every_steps();
  if (tensor == 1) {
    if (!config.parallel().sequence()) return absl::OkStatus();
    return draft.Error("parallel.sequence",
                       "true needs a tensor group to split over: parallel.tensor 2 or more, got 1");
  }
  if (config.parallel().workers() % tensor != 0) {
    return draft.Error("parallel.tensor",
                       absl::StrCat("must divide parallel.workers, ", config.parallel().workers(), ", got ", tensor));
  }
  if (const absl::Status fits = model::CheckParts(config.model(), tensor); !fits.ok()) {
    return draft.Error("parallel.tensor", std::string(fits.message()));
  }
  if (config.parallel().sequence()) {
    if (const absl::Status fits = model::CheckSequences(config.model().context(), tensor); !fits.ok()) {
      return draft.Error("parallel.sequence", std::string(fits.message()));
    }
  }
  if (replays == 0) return absl::OkStatus();
  return draft.Error("integrity.replay_every_steps",
                     absl::StrCat("must be 0 with parallel.tensor ", tensor,
                                  ", whose ranks compute parts of a micro-batch, got ", replays));
}

absl::Status CheckParallel(const ConfigDraft& draft) {
  const v1::Config& config = draft.config;
  const int64_t workers = config.parallel().workers(), micro = config.batch().micro_sequences();
  ZF_RETURN_IF_ERROR(CheckTensorGroups(draft));
  const int64_t groups = workers / config.parallel().tensor();
  const int64_t global = config.batch().global_sequences(), pass = groups * micro;
  const std::string sharers = groups == workers
                                  ? absl::StrCat(workers, " workers")
                                  : absl::StrCat(groups, " tensor groups of ", config.parallel().tensor(), " workers");
  if (const absl::Status team = coordinator::ConfiguredTeam(config.parallel()).status(); !team.ok()) {
    return draft.Error("parallel.team", std::string(team.message()));
  }
  if (config.restart().spares() > 0 && config.restart().max_per_rank() == 0) {
    return draft.Error("restart.spares",
                       absl::StrCat("must be 0 where restart.max_per_rank is 0 and the first loss ends ",
                                    "the run, got ", config.restart().spares()));
  }
  if (config.checkpoint().snapshot() == "stream") {
    const v1::OffloadConfig& offload = config.offload();
    if (offload.optimizer() == "nvme" || (offload.fraction() != 0 && offload.fraction() != 1)) {
      return draft.Error("checkpoint.snapshot",
                         "stream reads states that are in one memory: it needs offload.optimizer none or cpu, and "
                         "offload.fraction 0 or 1; use auto or memory");
    }
  }
  if (config.checkpoint().replicate() > 0 && config.checkpoint().snapshot_every_steps() == 0) {
    return draft.Error("checkpoint.replicate", absl::StrCat("needs checkpoint.snapshot_every_steps, which is 0; got ",
                                                            config.checkpoint().replicate()));
  }
  if (config.restart().min_workers() > workers) {
    return draft.Error("restart.min_workers", absl::StrCat("must be <= parallel.workers, ", workers, ", got ",
                                                           config.restart().min_workers()));
  }
  if (const int64_t fewest = config.restart().min_workers(), tensor = config.parallel().tensor();
      fewest % tensor != 0) {
    const int64_t below = fewest / tensor * tensor;
    return draft.Error("restart.min_workers",
                       absl::StrCat("must be a whole number of tensor groups of ", tensor, " workers, got ", fewest,
                                    "; ", below > 0 ? absl::StrCat(below, " or ") : "", below + tensor, " is"));
  }
  if (config.collectives() == "in_process" && workers != 1) {
    return draft.Error("collectives", absl::StrCat("in_process supports a single worker, got ", workers, "; use ucx"));
  }
  if (global % pass == 0) return absl::OkStatus();
  if (!draft.Given("batch.micro_sequences")) {
    const int64_t less = global / groups * groups;
    return draft.Error("batch.global_sequences",
                       absl::StrCat(global, " cannot be shared equally by ", sharers, "; ",
                                    less > 0 ? absl::StrCat(less, " or ") : "", less + groups, " can"));
  }
  const int64_t below = global / pass * pass;
  return draft.Error(
      "batch.global_sequences",
      absl::StrCat(global, " is not a multiple of parallel.workers ", groups == workers ? "" : "/ parallel.tensor ",
                   "x batch.micro_sequences = ", groups, " x ", micro, " = ", pass, "; ",
                   below > 0 ? absl::StrCat(below, " or ") : "", below + pass, " is"));
}

// What an update that comes a step late cannot go together with.
absl::Status CheckDelayedUpdate(const ConfigDraft& draft, const std::string& fraction) {
  const v1::OffloadConfig& offload = draft.config.offload();
  const int64_t after = offload.delayed_update().after_steps();
  if (after == 0) return absl::OkStatus();
  const std::string delayed = absl::StrCat("offload.delayed_update.after_steps ", after);
  if (offload.fraction() != 1) {
    return draft.Error("offload.fraction",
                       absl::StrCat("must be 1 with ", delayed, ", got ", fraction,
                                    ": all parameters are updated late, so all states are on the host"));
  }
  if (offload.optimizer() == "none") {
    return draft.Error("offload.delayed_update.after_steps",
                       absl::StrCat("must be 0 without offload.optimizer: cpu, got ", after));
  }
  if (offload.speculative()) {
    return draft.Error("offload.speculative",
                       absl::StrCat("must be false with ", delayed, ": a late update knows its norm"));
  }
  const int64_t snapshots = draft.config.checkpoint().snapshot_every_steps();
  if (snapshots == 0) return absl::OkStatus();
  return draft.Error("checkpoint.snapshot_every_steps",
                     absl::StrCat("must be 0 with ", delayed, ", got ", snapshots,
                                  ": a snapshot applies the gradient that is held back, so that the run's bits would ",
                                  "depend on when it is taken; set either to 0"));
}

absl::Status CheckOffload(const ConfigDraft& draft) {
  const v1::OffloadConfig& offload = draft.config.offload();
  const bool planned = offload.fraction() == kFractionByPlan;
  const std::string fraction = planned ? "auto" : absl::StrFormat("%.15g", offload.fraction());
  if (!planned && !(offload.fraction() >= 0 && offload.fraction() <= 1)) {
    return draft.Error("offload.fraction", absl::StrCat("must be a number from 0 to 1, or auto, got ", fraction));
  }
  if (offload.fraction() != 1 && offload.optimizer() == "none") {
    return draft.Error("offload.fraction",
                       absl::StrCat("must be left out without offload.optimizer: cpu, got ", fraction));
  }
  if (planned && draft.config.memory().device_limit().empty()) {
    return draft.Error("offload.fraction",
                       "auto needs memory.device_limit: as many states stay on the device as it has room for");
  }
  if (offload.optimizer() == "nvme" && offload.dir().empty()) {
    return draft.Error("offload.optimizer",
                       "nvme needs offload.dir: a directory on a fast disk of every host, such as /scratch/states");
  }
  if (offload.optimizer() != "nvme" && !offload.dir().empty()) {
    return draft.Error("offload.dir", absl::StrCat("must be left out with offload.optimizer ", offload.optimizer(),
                                                   ", got \"", offload.dir(), "\"; nvme uses it"));
  }
  if (offload.parameters() != "none") {
    if (draft.config.parallel().zero_stage() != 3) {
      return draft.Error("offload.parameters",
                         absl::StrCat("cpu needs parallel.zero_stage 3, got ", draft.config.parallel().zero_stage(),
                                      ": in the other stages whole parameters are in use from step to step"));
    }
    if (offload.optimizer() == "none") {
      return draft.Error("offload.parameters", "cpu needs offload.optimizer: cpu, got none: the states are larger");
    }
    if (offload.fraction() != 1) {
      return draft.Error("offload.parameters", absl::StrCat("cpu needs offload.fraction 1, got ", fraction,
                                                            ": the states that stay are larger"));
    }
  }
  if (offload.speculative() && offload.optimizer() != "cpu") {
    return draft.Error("offload.speculative",
                       absl::StrCat("true needs offload.optimizer: cpu, got ", offload.optimizer()));
  }
  ZF_RETURN_IF_ERROR(CheckDelayedUpdate(draft, fraction));
  if (offload.optimizer() != "none" && draft.config.parallel().zero_stage() == 0) {
    return draft.Error("offload.optimizer",
                       absl::StrCat(offload.optimizer(), " needs parallel.zero_stage 1, 2 or 3: in stage 0 every rank ",
                                    "would copy and update the whole model on its host"));
  }
  return absl::OkStatus();
}

absl::Status CheckMemory(const ConfigDraft& draft) {
  const v1::MemoryConfig& memory = draft.config.memory();
  for (const auto& [key, value] : {std::pair{"memory.device_limit", &memory.device_limit()},
                                   std::pair{"memory.host_limit", &memory.host_limit()}}) {
    if (value->empty() || ParseBytes(*value).has_value()) continue;
    return draft.Error(key,
                       absl::StrCat("must be a size such as 4GiB or 512MiB, got \"", absl::CHexEscape(*value), "\""));
  }
  return absl::OkStatus();
}

absl::Status CheckBuffers(const ConfigDraft& draft) {
  constexpr char kKey[] = "buffers.bucket_bytes";
  const int64_t bytes = draft.config.buffers().bucket_bytes();
  if (bytes == 0) return absl::OkStatus();
  if (bytes < kLeastBucketBytes || bytes % kBucketAlignment != 0) {
    return draft.Error(kKey, absl::StrCat("must be 0, or at least ", kLeastBucketBytes, " and a multiple of ",
                                          kBucketAlignment, ", got ", bytes));
  }
  if (draft.config.device() == "cuda") {
    return draft.Error(kKey, absl::StrCat("is not supported on device cuda; must be 0, got ", bytes));
  }
  if (draft.config.offload().optimizer() == "none") return absl::OkStatus();
  return draft.Error(kKey, absl::StrCat("must be 0 with offload.optimizer ", draft.config.offload().optimizer(),
                                        ", whose gradients leave a unit at a time, got ", bytes));
}

// A check that has nothing to compare would be a promise that is not kept.
absl::Status CheckIntegrity(const ConfigDraft& draft) {
  const v1::Config& config = draft.config;
  constexpr char kParameters[] = "integrity.every_steps", kReplays[] = "integrity.replay_every_steps";
  for (const auto& [key, every] : {std::pair{kParameters, config.integrity().every_steps()},
                                   std::pair{kReplays, config.integrity().replay_every_steps()}}) {
    if (every == 0) continue;
    if (config.parallel().workers() == 1) return draft.Error(key, "must be 0 for a single worker: nothing is compared");
    if (config.parallel().workers() == config.parallel().tensor()) {
      return draft.Error(key, "must be 0 for a single tensor group: nothing is kept twice to compare");
    }
    if (config.device() == "cuda") return draft.Error(key, "is not supported on device cuda; must be 0");
  }
  if (config.integrity().every_steps() > 0 && config.parallel().zero_stage() == 3) {
    return draft.Error(kParameters, "must be 0 in parallel.zero_stage 3, where no parameter is kept twice");
  }
  return absl::OkStatus();
}

// What a run that stops has no use for. A complete configuration, as `train` writes it for its processes, has the
// defaults.
absl::Status CheckDivergence(const ConfigDraft& draft) {
  const v1::Config& config = draft.config;
  constexpr char kRollbacks[] = "divergence.max_rollbacks", kWindow[] = "divergence.window_steps";
  const bool counts = draft.Given(kRollbacks) && config.divergence().max_rollbacks() != kMostRollbacks;
  if (counts && config.on_divergence() != "rollback") {
    return draft.Error(
        kRollbacks, absl::StrCat("needs on_divergence rollback, which is ", config.on_divergence(), "; leave it out"));
  }
  const bool judges = draft.Given(kWindow) && config.divergence().window_steps() != kSpikeWindowSteps;
  if (judges && config.divergence().spike_factor() == 0) {
    return draft.Error(kWindow, "needs divergence.spike_factor, which is 0; leave it out");
  }
  return absl::OkStatus();
}

absl::Status CheckRun(const ConfigDraft& draft) {
  const v1::Config& config = draft.config;
  if (config.checkpoint().dir().empty())
    return draft.Error("checkpoint.dir", "must name a directory, such as checkpoints");
  const double tokens = static_cast<double>(config.steps()) * static_cast<double>(config.batch().global_sequences()) *
                        static_cast<double>(config.model().context());
  if (tokens > kMostTokens) {
    return draft.Error("steps",
                       absl::StrFormat("steps x batch.global_sequences x model.context = %.1e tokens; at most %.1e "
                                       "can be counted",
                                       tokens, kMostTokens));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckConfig(const ConfigDraft& draft) {
  ZF_RETURN_IF_ERROR(CheckIntegers(draft));
  ZF_RETURN_IF_ERROR(CheckChoices(draft));
  ZF_RETURN_IF_ERROR(CheckActivation(draft));
  ZF_RETURN_IF_ERROR(CheckOptimizer(draft));
  ZF_RETURN_IF_ERROR(CheckNumbers(draft));
  ZF_RETURN_IF_ERROR(CheckModel(draft));
  ZF_RETURN_IF_ERROR(CheckData(draft));
  ZF_RETURN_IF_ERROR(CheckSize(draft));
  ZF_RETURN_IF_ERROR(CheckParallel(draft));
  ZF_RETURN_IF_ERROR(CheckIntegrity(draft));
  ZF_RETURN_IF_ERROR(CheckDivergence(draft));
  ZF_RETURN_IF_ERROR(CheckOffload(draft));
  ZF_RETURN_IF_ERROR(CheckMemory(draft));
  ZF_RETURN_IF_ERROR(CheckBuffers(draft));
  return CheckRun(draft);
}

std::vector<IntegerLimits> ConfigIntegerLimits() {
  std::vector<IntegerLimits> limits;
  for (const IntegerRow& row : IntegerRows(v1::Config())) limits.push_back({row.key, row.smallest, row.largest});
  return limits;
}

std::vector<ConfigChoices> ConfigChoiceKeys() {
  std::vector<ConfigChoices> all;
  for (const ChoiceRow& row : ChoiceRows(v1::Config())) {
    all.push_back({row.key, row.choices});
    if (std::string_view(row.absent_reason) != kNoCuda) continue;
    all.back().choices.insert(all.back().choices.end(), row.absent.begin(), row.absent.end());
  }
  return all;
}

}  // namespace zerofleet::cli
