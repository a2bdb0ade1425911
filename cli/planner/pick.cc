// See pick.h.
#include "cli/planner/pick.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/units.h"
#include "coordinator/batch_shares.h"
#include "worker/model/checkpointing.h"
#include "worker/model/spec.h"
#include "worker/trainer/rules.h"

namespace zerofleet::cli {
namespace {

constexpr double kTie = 1.005, kMeasuredTie = 1.05;
// Predictions by rates are wrong by up to this factor between choices that share cores and memory differently; see
// docs/planning.md.
constexpr double kNear = 1.5;
constexpr size_t kMostFinalists = 6;

// The values of a key to try: `all` if the key is open, otherwise the configured one.
template <typename Value>
std::vector<Value> ValuesOf(const char* key, const std::set<std::string>& open, const Value& configured,
                            std::vector<Value> all) {
  return open.count(key) > 0 ? all : std::vector<Value>{configured};
}

std::vector<int64_t> TensorDegrees(const v1::Config& config, const Cluster& cluster) {
  std::vector<int64_t> all;
  for (int64_t degree = 1; degree <= std::min<int64_t>(config.parallel().workers(), cluster.node_gpus); degree *= 2) {
    if (config.parallel().workers() % degree == 0 && model::CheckParts(config.model(), degree).ok())
      all.push_back(degree);
  }
  if (std::find(all.begin(), all.end(), config.parallel().tensor()) == all.end())
    all.push_back(config.parallel().tensor());
  return all;
}

std::vector<std::string> Checkpointings(const v1::Config& config) {
  std::vector<std::string> all = {"none", "selective", "block"};
  const auto root = std::llround(std::sqrt(static_cast<double>(config.model().layers())));
  if (root > 1) all.push_back(model::EveryText(root));
  return all;
}

// The micro-batches to try, the largest first: each divides a step's sequences per data rank.
std::vector<int64_t> MicroBatches(const v1::Config& config) {
  const int64_t data = config.parallel().workers() / config.parallel().tensor();
  int64_t shared = config.batch().global_sequences();
  for (const int64_t later : config.batch().schedule()) shared = std::gcd(shared, later);
  if (shared % data != 0) return {};
  const int64_t sequences = shared / data;
  std::vector<int64_t> all;
  for (int64_t micro = sequences; micro >= 1; --micro) {
    // Only powers of two and the whole: what others would gain is not worth a search.
    if (sequences % micro == 0 && (micro == sequences || (micro & (micro - 1)) == 0)) all.push_back(micro);
  }
  return all;
}

// The rule that keeps `config` from being trained; null if there is none. A configuration that is only planned need not
// name its data.
const trainer::Rule* WhyNot(v1::Config config) {
  if (config.data().train().empty()) config.mutable_data()->add_train("data");
  return trainer::FirstViolated(config);
}

struct Search {
  const std::set<std::string>& open;
  const Cluster& cluster;
  std::vector<Choice> fitting;
  std::optional<Choice> closest;  // among those that do not fit, the one that needs the least device memory
  std::string refused;            // why the last choice that cannot be trained at all is refused
  int64_t tried = 0;

  absl::Status TryMicroBatches(v1::Config config) {
    std::vector<int64_t> all =
        ValuesOf("batch.micro_sequences", open, config.batch().micro_sequences(), MicroBatches(config));
    for (const int64_t micro : all) {
      config.mutable_batch()->set_micro_sequences(micro);
      if (const trainer::Rule* const rule = WhyNot(config)) {
        refused = absl::StrCat(rule->keys.front(), ": ", rule->message(config));
        continue;
      }
      ++tried;
      ZF_ASSIGN_OR_RETURN(const memory::MemoryPlan plan, PlanMemoryOf(config));
      const MemoryNeed need = NeedOf(plan, cluster);
      if (!need.fits()) {
        if (!closest || need.device_sum() < closest->estimate.need.device_sum()) {
          closest = Choice{config, {.plan = plan, .need = need}};
        }
        continue;
      }
      ZF_ASSIGN_OR_RETURN(RankEstimate estimate, EstimateRank(config, cluster));
      fitting.push_back({config, std::move(estimate)});
      return absl::OkStatus();  // smaller micro-batches do the same work in more passes
    }
    return absl::OkStatus();
  }
};

// A key to compare choices by: among equally fast ones the smaller key is preferred.
auto Simplicity(const v1::Config& config) {
  const std::string& checkpointing = config.activation().checkpointing();
  const int again = checkpointing == "none" ? 0 : checkpointing == "selective" ? 1 : checkpointing == "block" ? 2 : 3;
  return std::tuple(config.offload().optimizer() != "none", config.parallel().zero_stage(), config.parallel().tensor(),
                    again, -config.batch().micro_sequences());
}

bool SameButForMicroBatch(const v1::Config& a, const v1::Config& b) {
  return a.parallel().zero_stage() == b.parallel().zero_stage() && a.parallel().tensor() == b.parallel().tensor() &&
         a.activation().checkpointing() == b.activation().checkpointing() &&
         a.offload().optimizer() == b.offload().optimizer();
}

// The simplest among the `wanted` choices that are within a tie of the fastest; null if none is wanted.
const Choice* BestOf(const std::vector<Choice>& choices, const std::function<bool(const Choice&)>& wanted) {
  double fastest = 0;
  for (const Choice& one : choices) {
    if (wanted(one)) fastest = std::max(fastest, one.estimate.tokens_per_second);
  }
  const Choice* best = nullptr;
  for (const Choice& one : choices) {
    if (!wanted(one) || one.estimate.tokens_per_second * kTie < fastest) continue;
    if (best == nullptr || Simplicity(one.config) < Simplicity(best->config)) best = &one;
  }
  return best;
}

std::vector<Choice> FastestOf(std::vector<Choice> choices) {
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.estimate.tokens_per_second > b.estimate.tokens_per_second;
  });
  if (choices.size() > kMostListed) choices.erase(choices.begin() + kMostListed, choices.end());
  return choices;
}

// The choices worth a short run. Where several are equally fast and split the same computation in the same way, as all
// stages do in a data group of one, only the simplest is kept. At most half have the same tensor degree, since rates
// distinguish degrees least well.
std::vector<Choice> FinalistsOf(std::vector<Choice> choices) {
  std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return std::tuple(a.estimate.time.seconds(), Simplicity(a.config)) <
           std::tuple(b.estimate.time.seconds(), Simplicity(b.config));
  });
  std::vector<Choice> finalists;
  for (Choice& one : choices) {
    if (finalists.size() == kMostFinalists) break;
    if (!finalists.empty() && one.estimate.time.seconds() > finalists[0].estimate.time.seconds() * kNear) break;
    const auto is_alike = [&one](const Choice& other) {
      return one.config.parallel().tensor() == other.config.parallel().tensor() &&
             one.config.activation().checkpointing() == other.config.activation().checkpointing() &&
             one.config.offload().optimizer() == other.config.offload().optimizer() &&
             one.estimate.time.seconds() < other.estimate.time.seconds() * kTie;
    };
    const auto of_its_degree = std::count_if(finalists.begin(), finalists.end(), [&one](const Choice& other) {
      return one.config.parallel().tensor() == other.config.parallel().tensor();
    });
    if (of_its_degree == kMostFinalists / 2) continue;
    if (std::none_of(finalists.begin(), finalists.end(), is_alike)) finalists.push_back(std::move(one));
  }
  return finalists;
}

std::string ReasonOf(const Choice& first, const std::optional<Choice>& second) {
  const std::string base =
      absl::StrFormat("the fastest that fits, %s tokens/s predicted, with %s of %s of device memory in use",
                      HumanCount(first.estimate.tokens_per_second), HumanBytes(first.estimate.need.device_sum()),
                      HumanBytes(first.estimate.need.device_limit));
  if (!second) return absl::StrCat(base, "; no other fits");
  const double slower = first.estimate.tokens_per_second / second->estimate.tokens_per_second - 1;
  if (slower < kTie - 1) {
    return absl::StrCat(base, "; ", second->Name(), " is as fast, but splits, computes again or moves more");
  }
  return absl::StrFormat("%s; %s would be %.1f%% slower", base, second->Name(), 100 * slower);
}

}  // namespace

std::string Choice::Name() const {
  std::string name = absl::StrCat("stage ", config.parallel().zero_stage());
  if (config.parallel().tensor() > 1) absl::StrAppend(&name, ", tensor ", config.parallel().tensor());
  absl::StrAppend(&name, ", micro-batch ", config.batch().micro_sequences());
  if (config.activation().checkpointing() != "none") {
    absl::StrAppend(&name, ", checkpointing ", config.activation().checkpointing());
  }
  if (config.offload().optimizer() != "none") absl::StrAppend(&name, ", offload ", config.offload().optimizer());
  return name;
}

absl::StatusOr<Pick> PickSettings(const v1::Config& config, const std::set<std::string>& left_open,
                                  const Cluster& cluster) {
  std::set<std::string> open = left_open;
  if (coordinator::SumsInSampleOrder(config)) {
    // In this order these keys decide a run's bits, so they must not depend on the machine.
    for (const char* const key : {"parallel.tensor", "batch.micro_sequences"}) open.erase(key);
  }
  Search search{.open = open, .cluster = cluster, .fitting = {}, .closest = {}, .refused = {}};
  const v1::ParallelConfig& parallel = config.parallel();
  for (const int64_t tensor :
       ValuesOf<int64_t>("parallel.tensor", open, parallel.tensor(), TensorDegrees(config, cluster))) {
    for (const int64_t stage : ValuesOf<int64_t>("parallel.zero_stage", open, parallel.zero_stage(), {0, 1, 2, 3})) {
      for (const std::string& offload :
           ValuesOf<std::string>("offload.optimizer", open, config.offload().optimizer(), {"none", "cpu"})) {
        for (const std::string& checkpointing : ValuesOf<std::string>(
                 "activation.checkpointing", open, config.activation().checkpointing(), Checkpointings(config))) {
          v1::Config changed = config;
          changed.mutable_parallel()->set_tensor(static_cast<int>(tensor));
          changed.mutable_parallel()->set_zero_stage(static_cast<int>(stage));
          changed.mutable_offload()->set_optimizer(offload);
          changed.mutable_activation()->set_checkpointing(checkpointing);
          ZF_RETURN_IF_ERROR(search.TryMicroBatches(changed));
        }
      }
    }
  }
  if (search.fitting.empty()) {
    if (!search.closest && !search.refused.empty()) return absl::InvalidArgumentError(search.refused);
    return absl::ResourceExhaustedError(!search.closest
                                            ? "no micro-batch shares batch.global_sequences among the workers"
                                            : absl::StrCat("nothing fits: even ", search.closest->Name(), " ",
                                                           search.closest->estimate.need.Verdict(),
                                                           "; use more devices, or a smaller model"));
  }
  const Choice* const best = BestOf(search.fitting, [](const Choice&) { return true; });
  Pick pick{*best, std::nullopt, "", search.tried, static_cast<int64_t>(search.fitting.size())};
  const Choice* const second =
      BestOf(search.fitting, [&](const Choice& one) { return !SameButForMicroBatch(one.config, pick.first.config); });
  if (second != nullptr) pick.second = *second;
  pick.reason = ReasonOf(pick.first, pick.second);
  pick.fastest = FastestOf(search.fitting);
  pick.finalists = FinalistsOf(std::move(search.fitting));
  return pick;
}

void DecideByRuns(Pick& pick) {
  std::vector<Choice>& finalists = pick.finalists;
  std::sort(finalists.begin(), finalists.end(),
            [](const Choice& a, const Choice& b) { return *a.measured_seconds < *b.measured_seconds; });
  const auto first_slower = std::find_if(finalists.begin(), finalists.end(), [&](const Choice& one) {
    return *one.measured_seconds > *finalists[0].measured_seconds * kMeasuredTie;
  });
  const auto simplest = std::min_element(finalists.begin(), first_slower, [](const Choice& a, const Choice& b) {
    return Simplicity(a.config) < Simplicity(b.config);
  });
  std::rotate(finalists.begin(), simplest, simplest + 1);
  pick.first = finalists[0];
  pick.second = finalists.size() > 1 ? std::optional(finalists[1]) : std::nullopt;
  pick.reason =
      absl::StrFormat("the fastest of %d that were near each other at the rates, %.1f ms a step in short runs",
                      finalists.size(), 1e3 * *pick.first.measured_seconds);
  if (pick.second) {
    absl::StrAppendFormat(&pick.reason, "; %s took %.1f ms", pick.second->Name(), 1e3 * *pick.second->measured_seconds);
  }
}

std::vector<std::string> PickedSettings(const v1::Config& picked, const std::set<std::string>& open) {
  std::vector<std::string> settings;
  const auto add = [&](const char* key, const auto& value) {
    if (open.count(key) > 0) settings.push_back(absl::StrCat(key, "=", value));
  };
  add("parallel.zero_stage", picked.parallel().zero_stage());
  add("parallel.tensor", picked.parallel().tensor());
  add("batch.micro_sequences", picked.batch().micro_sequences());
  add("activation.checkpointing", picked.activation().checkpointing());
  add("offload.optimizer", picked.offload().optimizer());
  return settings;
}

}  // namespace zerofleet::cli
