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
  std::optional<double> measured_seconds = std::nullopt;  // of a step, in short runs on this machine
  // "stage 2, micro-batch 4, checkpointing block"
  std::string Name() const;
};

// The most choices that a plan lists among those that fit.
inline constexpr size_t kMostListed = 10;

struct Pick {
  Choice first;
  std::optional<Choice> second;  // the best one with another stage, tensor degree, checkpointing or offload
  std::string reason;            // one sentence: why `first` was chosen, and what `second` lacks
  int64_t tried = 0, fitting = 0;
  std::vector<Choice> fastest = {};    // choices that fit, by the rates' prediction, fastest first; at most kMostListed
  std::vector<Choice> finalists = {};  // choices predicted to be near the fastest, fastest first: worth measuring
};

// The best settings for `config`: only the keys in `open` change, and only to what can be trained if `config` can. The
// number of sequences in a step stays as it is. Among choices within 0.5% of the fastest the preference is, in this
// order: no offload, the lower stage, the smaller tensor degree, less recomputation, the larger micro-batch.
// ResourceExhausted, naming the choice that is closest, if nothing fits; InvalidArgument if none can be trained.
absl::StatusOr<Pick> PickSettings(const v1::Config& config, const std::set<std::string>& open, const Cluster& cluster);

// Makes the fastest of pick.finalists, whose measured_seconds are all set, the first choice, and the next one the
// second. Among those within 5% of the fastest the preference is that of PickSettings.
void DecideByRuns(Pick& pick);

// KEY=VALUE for each key in `open`, with its value in `picked`.
std::vector<std::string> PickedSettings(const v1::Config& picked, const std::set<std::string>& open);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_PICK_H_
