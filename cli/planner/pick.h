// The settings that a plan would choose: an exhaustive search over the stage, the tensor degree, the micro-batch, the
// checkpointing and the offload, by predicted tokens per second among what fits.
#ifndef ZEROFLEET_CLI_PLANNER_PICK_H_
#define ZEROFLEET_CLI_PLANNER_PICK_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/planner/estimate.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// The keys that a pick decides.
inline constexpr const char* kPickedKeys[] = {"parallel.zero_stage", "parallel.tensor", "batch.micro_sequences",
                                              "activation.checkpointing", "offload.optimizer"};

struct Choice {
  v1::Config config;
  RankEstimate estimate;
  std::optional<double> measured_seconds = std::nullopt;  // of a step, in runs on this machine
  // "stage 2, micro-batch 4, checkpointing block"
  std::string Name() const;
};

// How many of the choices that fit a plan lists.
inline constexpr size_t kMostListed = 10;

struct Pick {
  Choice first;
  std::optional<Choice> second;  // the best that is another stage, tensor degree, checkpointing or offload
  std::string reason;            // one sentence: why the first, and what the second lacks
  int64_t tried = 0, fitting = 0;
  std::vector<Choice> fastest = {};    // of those that fit, by the rates, the fastest first; at most kMostListed
  std::vector<Choice> finalists = {};  // those that the rates put near the first, the fastest first: worth measuring
};

// The best settings for `config`: only the keys in `open` change, and only to what can be trained if `config` can. A
// step's sequences stay as they are. Ties, within 0.5%: the lower stage, the smaller tensor degree, less computed
// again, no offload, the larger micro-batch. ResourceExhausted if nothing fits, with the choice that is closest.
absl::StatusOr<Pick> PickSettings(const v1::Config& config, const std::set<std::string>& open, const Cluster& cluster);

// The fastest of pick.finalists, which all have their measured_seconds, becomes the first, and the next the second.
// Ties, within 5%, as above.
void DecideByRuns(Pick& pick);

// KEY=VALUE for each of `open`, of the pick's configuration.
std::vector<std::string> PickedSettings(const v1::Config& picked, const std::set<std::string>& open);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_PICK_H_
