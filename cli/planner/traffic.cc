// Schedules of a few micro-batches, extrapolated to all of them; see traffic.h.
#include "cli/planner/traffic.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "coordinator/batch_shares.h"
#include "coordinator/placement.h"
#include "worker/collective/topology.h"
#include "worker/device/dtype.h"
#include "worker/parallel/mesh.h"
#include "worker/trainer/rank_plan.h"

namespace zerofleet::cli {
namespace {

// Every micro-batch from the third on sends what the second did; a step may also have just one or two.
constexpr int64_t kScheduled = 3;

// The node of each rank of a group of `size` ranks that are `stride` ranks of the view apart.
std::vector<int> NodesOfGroup(int size, int64_t stride, int64_t node_gpus) {
  std::vector<int> nodes(size);
  for (int i = 0; i < size; ++i) nodes[i] = static_cast<int>(i * stride / node_gpus);
  return nodes;
}

LinkBytes Of(const collective::Traffic& traffic) {
  return {static_cast<double>(traffic.sent - traffic.to_other_nodes), static_cast<double>(traffic.to_other_nodes),
          traffic.sent > 0 ? 1.0 : 0.0};
}

absl::StatusOr<StepTraffic> Scheduled(const v1::Config& config, int64_t node_gpus) {
  const int workers = static_cast<int>(config.parallel().workers()),
            parts = static_cast<int>(config.parallel().tensor());
  const parallel::Mesh mesh = parallel::Mesh::OfOneNode(0, workers, parts);
  ZF_ASSIGN_OR_RETURN(const trainer::RankPlan rank, trainer::RankPlan::Of(config, mesh));
  ZF_ASSIGN_OR_RETURN(const std::vector<zero::ScheduledCollective> schedule, rank.Schedule());
  ZF_ASSIGN_OR_RETURN(int team, coordinator::ConfiguredTeam(config.parallel()));
  if (coordinator::SumsInSampleOrder(config)) team = workers;
  if (team == 0) team = coordinator::AutoTeam(NodesOfGroup(workers, 1, node_gpus), parts);
  const int size = workers / parts;
  const collective::Topology data(0, size, std::min(team, size), NodesOfGroup(size, parts, node_gpus));
  const collective::Topology tensor(0, parts, 0, NodesOfGroup(parts, 1, node_gpus));
  const int64_t element = device::DTypeBytes(rank.run().dtype);
  std::map<std::pair<bool, int64_t>, LinkBytes> known;  // by bytes reduced or gathered in the data group
  const auto cost = [&](const collective::Topology& topology, bool reduces, int64_t bytes) {
    // A group's sums of scalars may not be a whole number of elements.
    if (reduces && bytes % element == 0) return Of(ReduceScatterTraffic(topology, bytes / element, element));
    return reduces ? Of(ReduceScatterTraffic(topology, bytes, 1)) : Of(AllGatherTraffic(topology, bytes, 1));
  };
  StepTraffic traffic;
  int64_t largest = 0, all = 0;
  for (const zero::ScheduledCollective& one : schedule) {
    const bool in_tensor = one.group == parallel::kTensorGroup;
    for (const bool reduces : {false, true}) {
      if (one.operation == (reduces ? collective::Operation::kAllGather : collective::Operation::kReduceScatter))
        continue;
      if (in_tensor) {
        traffic.tensor = traffic.tensor + cost(tensor, reduces, one.bytes);
        continue;
      }
      const auto [at, is_new] = known.try_emplace({reduces, one.bytes});
      if (is_new) at->second = cost(data, reduces, one.bytes);
      LinkBytes& sum = reduces ? traffic.reduce : traffic.gather;
      sum = sum + at->second;
      all += one.bytes;
      largest = std::max(largest, one.bytes);
    }
  }
  if (all > 0) traffic.largest_unit = static_cast<double>(largest) / static_cast<double>(all);
  return traffic;
}

}  // namespace

int64_t MicroBatchesOf(const v1::Config& config) {
  return coordinator::MicroBatchesOf(config, config.parallel().workers() / config.parallel().tensor());
}

v1::Config WithMicroBatches(const v1::Config& config, int64_t micro_batches) {
  v1::Config changed = config;
  changed.mutable_batch()->clear_schedule();
  changed.mutable_batch()->clear_schedule_steps();
  changed.mutable_batch()->set_global_sequences(config.parallel().workers() / config.parallel().tensor() *
                                                config.batch().micro_sequences() * micro_batches);
  return changed;
}

v1::Config WithWorkers(const v1::Config& config, int64_t workers) {
  const int64_t micro_batches = MicroBatchesOf(config);
  v1::Config changed = config;
  changed.mutable_parallel()->set_workers(static_cast<int>(workers));
  return WithMicroBatches(changed, micro_batches);
}

absl::StatusOr<StepTraffic> PlanTraffic(const v1::Config& config, int64_t node_gpus) {
  const int64_t micro_batches = MicroBatchesOf(config);
  if (micro_batches <= kScheduled) return Scheduled(config, node_gpus);
  ZF_ASSIGN_OR_RETURN(const StepTraffic two, Scheduled(WithMicroBatches(config, kScheduled - 1), node_gpus));
  ZF_ASSIGN_OR_RETURN(StepTraffic all, Scheduled(WithMicroBatches(config, kScheduled), node_gpus));
  const auto more = static_cast<double>(micro_batches - kScheduled);
  const auto extend = [more](LinkBytes& three, const LinkBytes& before) {
    three = three + (three + before * -1.0) * more;
  };
  const double before = all.sum().sum();
  extend(all.gather, two.gather);
  extend(all.reduce, two.reduce);
  extend(all.tensor, two.tensor);
  if (all.sum().sum() > 0) all.largest_unit *= before / all.sum().sum();
  return all;
}

}  // namespace zerofleet::cli
