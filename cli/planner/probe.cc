// See probe.h.
#include "cli/planner/probe.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/launcher/temporary_directory.h"
#include "cli/launcher/timed_steps.h"
#include "cli/planner/traffic.h"
#include "worker/model/checkpointing.h"

namespace zerofleet::cli {
namespace {

const StepsToTime kSteps = {.warm_up = 2, .steps = 5, .seconds = 1};
constexpr int kRounds = 3;  // the fastest counts: other work on the machine only ever makes a run slower
constexpr double kStartSeconds = 0.5;
constexpr int64_t kMostFurtherSegments = 8;
// The first of several micro-batches costs a different time than the others, and a step of a single one is different
// again (its gradients rest in another type), so no run has just one.
constexpr int64_t kFewMicroBatches = 2, kMoreMicroBatches = 4;

// The weights with which the values at `low` and `high` give the value at `wanted` on the line through them; one point
// where one suffices.
std::vector<std::pair<int64_t, double>> LinearWeights(int64_t low, int64_t high, int64_t wanted) {
  if (low == high) return {{low, 1.0}};
  const auto span = static_cast<double>(high - low);
  if (high == wanted) return {{high, 1.0}};
  return {{low, static_cast<double>(high - wanted) / span}, {high, static_cast<double>(wanted - low) / span}};
}

// The points differ by whole segments of blocks; the smaller one has a single segment, with as many blocks as the
// model's incomplete one.
std::vector<std::pair<int64_t, double>> LayerWeights(const v1::Config& config) {
  const int64_t layers = config.model().layers();
  const absl::StatusOr<model::Checkpointing> kind = model::CheckpointingOf(config.activation(), config.buffers());
  const int64_t segment = kind.ok() && kind->keeps_inputs() ? std::min(kind->segment, layers) : 1;
  const int64_t least = (layers - 1) % segment + 1, further = (layers - least) / segment;
  return LinearWeights(least, least + segment * std::min(CeilDivide(further, int64_t{2}), kMostFurtherSegments),
                       layers);
}

std::vector<std::pair<int64_t, double>> MicroBatchWeights(const v1::Config& config) {
  const int64_t all = MicroBatchesOf(config);
  return LinearWeights(std::min(all, kFewMicroBatches), std::min(all, kMoreMicroBatches), all);
}

// The configuration of a point's run, on data of its own: nothing but steps, no evaluations and no saves.
v1::Config ConfigOf(const v1::Config& config, const ProbePoint& point, const std::string& data,
                    const std::string& checkpoints) {
  constexpr int64_t kManySteps = 1'000'000;
  v1::Config run = WithMicroBatches(config, point.micro_batches);
  run.mutable_model()->set_layers(point.layers);
  run.set_steps(kManySteps);
  v1::DataConfig plain;
  plain.add_train(data);
  plain.set_format("tokens_u32");
  plain.set_tokenizer(config.data().tokenizer());
  plain.set_tokenizer_digest(config.data().tokenizer_digest());
  plain.set_on_change(config.data().on_change());
  plain.set_loss_on("all");
  *run.mutable_data() = plain;
  run.mutable_histograms()->set_every_steps(0);
  run.mutable_evaluate()->set_every_steps(0);
  run.mutable_checkpoint()->set_every_steps(0);
  run.mutable_checkpoint()->set_dir(checkpoints);
  return run;
}

}  // namespace

std::vector<ProbePoint> WholeStep(const v1::Config& config) {
  return {{config.model().layers(), MicroBatchesOf(config), /*weight=*/1}};
}

std::vector<ProbePoint> ProbePoints(const v1::Config& config) {
  if (config.model().freeze_size() > 0) return WholeStep(config);  // patterns name layers, which then differ
  std::vector<ProbePoint> points;
  for (const auto& [layers, layers_weight] : LayerWeights(config)) {
    for (const auto& [micro_batches, micro_batches_weight] : MicroBatchWeights(config)) {
      points.push_back({layers, micro_batches, layers_weight * micro_batches_weight});
    }
  }
  return points;
}

double ProbeCost(const ProbeTask& task, double step_seconds) {
  const auto whole = static_cast<double>(task.config.model().layers() * MicroBatchesOf(task.config));
  double seconds = 0;
  for (const ProbePoint& point : task.points) {
    const double step = step_seconds * static_cast<double>(point.layers * point.micro_batches) / whole;
    seconds += kStartSeconds + static_cast<double>(kSteps.warm_up) * step +
               std::max(static_cast<double>(kSteps.steps) * step, kSteps.seconds);
  }
  return kRounds * seconds;
}

absl::StatusOr<std::vector<Probe>> ProbeSteps(const std::vector<ProbeTask>& tasks, StopSignals& signals) {
  std::vector<Probe> probes;
  for (const ProbeTask& task : tasks) probes.push_back({.points = task.points});
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      const v1::Config& config = tasks[i].config;
      ZF_ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryDirectory> directory, TemporaryDirectory::Create());
      const std::string data = JoinPath(directory->path(), "data");
      const int64_t tokens = (config.model().context() + 1) * config.batch().global_sequences() * 2;
      ZF_RETURN_IF_ERROR(WriteFileAtomically(data, RandomTokens(tokens, config.model().vocab())));
      double round_seconds = 0;
      for (ProbePoint& point : probes[i].points) {
        const std::string name = absl::StrCat("run-", point.layers, "-", point.micro_batches);
        const v1::Config run = ConfigOf(config, point, data, JoinPath(directory->path(), name));
        ZF_ASSIGN_OR_RETURN(const TimedSteps timed, TimeSteps(run, kSteps, signals));
        const double seconds = timed.median().seconds();
        point.seconds = round == 0 ? seconds : std::min(point.seconds, seconds);
        round_seconds += point.weight * seconds;
      }
      probes[i].slowest_seconds = std::max(probes[i].slowest_seconds, round_seconds);
    }
  }
  for (Probe& probe : probes) {
    for (const ProbePoint& point : probe.points) probe.seconds += point.weight * point.seconds;
    probe.slowest_seconds = std::max(probe.slowest_seconds, probe.seconds);
  }
  return probes;
}

}  // namespace zerofleet::cli
