// Everything that `zerofleet plan` says about a model on a cluster: as values, as text, as JSON and as a page.
#ifndef ZEROFLEET_CLI_PLANNER_CLUSTER_PLAN_H_
#define ZEROFLEET_CLI_PLANNER_CLUSTER_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/planner/cluster.h"
#include "cli/planner/estimate.h"
#include "cli/planner/pick.h"
#include "cli/planner/probe.h"
#include "cli/report/terminal.h"
#include "nlohmann/json.hpp"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct ClusterPlan {
  std::string name;
  double parameters = 0;
  v1::Config config;
  Cluster cluster;
  RankEstimate rank = {};                     // rank 0
  std::optional<Probe> probe = std::nullopt;  // the step's time by short runs on this machine, if there were any
  std::optional<LargestModel> largest = std::nullopt;
  std::optional<int64_t> longest = std::nullopt;  // tokens of context
  std::optional<int64_t> smallest = std::nullopt;
  absl::StatusOr<Pick> pick = absl::UnknownError("no pick was made");
  std::vector<std::string> notes = {};
};

// The plan of `config`, whose parallel.workers are the cluster's devices.
absl::StatusOr<ClusterPlan> PlanOnCluster(const std::string& name, const v1::Config& config, const Cluster& cluster);

// The step's prediction, from short runs where there were any, otherwise from the cluster's rates.
struct PredictedStep {
  double seconds = 0, tokens_per_second = 0, mfu = 0;
};
PredictedStep PredictedStepOf(const ClusterPlan& plan);
// "from runs of 1 and 7 layers", or "at the rates above".
std::string PredictedFrom(const ClusterPlan& plan);

// The size and shape of the largest model, and that its weights are all trained where not all of the run's are.
std::string LargestText(const ClusterPlan& plan);

std::string ClusterPlanText(const ClusterPlan& plan, const Terminal& terminal);
nlohmann::ordered_json ClusterPlanJson(const ClusterPlan& plan);

// A self-contained HTML page: tables, and bars as SVG. Every text is escaped.
std::string ClusterPlanPage(const ClusterPlan& plan);

// A sentence that says what the plan's byte counts include.
std::string ConventionText(const v1::Config& config);

// Table 3 of the paper: the largest model that fits in each of the configurations C1 to C5, at tensor degree 16 on 400
// devices of 32 GB, with 16 sequences of 1024 tokens.
struct ConfigurationReach {
  std::string name, paper;
  double papers_largest = 0, largest = 0;
};
absl::StatusOr<std::vector<ConfigurationReach>> PlanPaperConfigurations();
std::string Table3Text(const std::vector<ConfigurationReach>& reaches, const Terminal& terminal);
nlohmann::ordered_json Table3Json(const std::vector<ConfigurationReach>& reaches);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_CLUSTER_PLAN_H_
