// See estimate.h.
#include "cli/planner/estimate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/planner/fraction.h"
#include "cli/planner/model_states.h"
#include "cli/planner/shape.h"
#include "coordinator/batch_shares.h"
#include "coordinator/placement.h"
#include "worker/model/checkpointing.h"
#include "worker/model/families.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "worker/optim/optimizer.h"
#include "worker/parallel/mesh.h"
#include "worker/trainer/rank_plan.h"
#include "worker/trainer/save_choice.h"

namespace zerofleet::cli {
namespace {

absl::StatusOr<std::unique_ptr<device::Device>> PlanningDevice() {
  return device::CreateDevice({.kind = "cpu", .threads = 1});
}

// The loss's logits are written, read by the softmax, overwritten by their gradient, and read by two products.
constexpr double kLogitPasses = 5;

StepWork WorkOf(const v1::Config& config, const model::ModelSpec& part, const model::Model& model,
                const StepTraffic& traffic) {
  const double parts = config.parallel().tensor();
  const double data = config.parallel().workers() / parts;
  // The tokens of the rank with the most micro-batches, for which the others wait.
  const auto tokens =
      static_cast<double>(MicroBatchesOf(config) * config.batch().micro_sequences() * config.model().context());
  const double element = ElementBytes(config.precision());
  const optim::OptimizerRow& optimizer = **optim::OptimizerOf(config);
  const int stage = config.parallel().zero_stage();
  const double owned = static_cast<double>(part.trained_parameters()) / (stage >= 1 ? data : 1);
  const bool in_float = MicroBatchesOf(config) > 1 || coordinator::SumsInSampleOrder(config);
  const double gradient = in_float ? sizeof(float) : element;
  const bool offloads = config.offload().optimizer() != "none";
  StepWork work = {.model_flops = part.FlopsPerToken() * tokens / parts,
                   .recomputed_flops = model.RecomputedFlopsPerToken() * tokens / parts,
                   .traffic = traffic,
                   .gathers_twice = stage == 3};
  work.pointwise_bytes = tokens *
                         (part.PointwiseElementsPerToken() * element +
                          kLogitPasses * static_cast<double>(config.model().vocab()) * sizeof(float)) /
                         parts;
  // States are read and written, gradients read for the norm and for the update, parameters written.
  const double updated =
      owned * (2.0 * static_cast<double>(optimizer.StateBytesPerParameter()) + 2 * gradient + element);
  const double leaves = offloads ? config.offload().fraction() : 0;
  work.update_bytes = updated * (1 - leaves);
  work.host_update_bytes = updated * leaves;
  work.copied_down = owned * gradient * leaves;
  work.copied_up = owned * element * leaves;
  if (config.offload().optimizer() == "nvme") {
    work.disk_bytes = owned * leaves * 2.0 * static_cast<double>(optimizer.StateBytesPerParameter());
  }
  work.activations_copied = static_cast<double>(model.HostActivationBytes() * MicroBatchesOf(config));
  return work;
}

}  // namespace

std::string MemoryNeed::Verdict() const {
  const auto short_of = [](int64_t bytes, const char* what) {
    return absl::StrCat("does not fit: ", HumanBytes(bytes), " too much for ", what);
  };
  if (device_sum() > device_limit) return short_of(device_sum() - device_limit, "the device");
  if (host > host_limit) return short_of(host - host_limit, "the host");
  if (shared_limit > 0 && all() > shared_limit)
    return short_of(all() - shared_limit, "a worker's share of the machine");
  return "fits";
}

absl::StatusOr<memory::MemoryPlan> PlanMemoryOf(const v1::Config& config) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device, PlanningDevice());
  ZF_ASSIGN_OR_RETURN(const v1::Config planned, WithPlannedFraction(config, *device));
  const parallel::Mesh mesh = parallel::Mesh::OfOneNode(0, static_cast<int>(config.parallel().workers()),
                                                        static_cast<int>(config.parallel().tensor()));
  return trainer::PlanRankMemory(planned, mesh, *device);
}

MemoryNeed NeedOf(const memory::MemoryPlan& plan, const Cluster& cluster) {
  return {.device = plan.Bytes(memory::Space::kDevice),
          .host = plan.Bytes(memory::Space::kHost),
          .outside = cluster.outside_bytes,
          .device_limit = cluster.device_bytes,
          .host_limit = static_cast<int64_t>(cluster.host_bytes_per_gpu()),
          .shared_limit = cluster.shared_bytes};
}

Rates RatesOf(const Cluster& cluster) {
  const auto ranks = static_cast<double>(std::min(cluster.gpus, cluster.node_gpus));  // of one node
  return {.flops_per_second = cluster.flops_per_second * cluster.efficiency,
          .peak_flops_per_second = cluster.flops_per_second,
          .memory_bytes_per_second = cluster.memory_bytes_per_second,
          .host_memory_bytes_per_second = cluster.host_memory_bytes_per_second / ranks,
          .peer_bytes_per_second = cluster.peer_bytes_per_second,
          .link_bytes_per_second = cluster.link_bytes_per_second,
          .host_link_bytes_per_second = cluster.host_link_bytes_per_second,
          .overlaps = cluster.overlaps,
          .nvme_bytes_per_second = cluster.nvme_bytes_per_second / ranks,
          .operation_seconds = cluster.operation_seconds};
}

absl::StatusOr<RankEstimate> EstimateRank(const v1::Config& given, const Cluster& cluster) {
  RankEstimate estimate;
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device, PlanningDevice());
  ZF_ASSIGN_OR_RETURN(const v1::Config config, WithPlannedFraction(given, *device));
  const parallel::Mesh mesh = parallel::Mesh::OfOneNode(0, static_cast<int>(config.parallel().workers()),
                                                        static_cast<int>(config.parallel().tensor()));
  ZF_ASSIGN_OR_RETURN(const trainer::RankPlan rank, trainer::RankPlan::Of(config, mesh));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<model::Model> model, rank.CreateModel(*device));
  estimate.plan = trainer::ChooseSaves(config, *model, rank.layout(), *device).plan;
  estimate.need = NeedOf(estimate.plan, cluster);
  ZF_ASSIGN_OR_RETURN(estimate.traffic, PlanTraffic(config, cluster.node_gpus));
  const StepWork work = WorkOf(config, rank.spec(), *model, estimate.traffic);
  estimate.host_link_bytes = work.copied_down + work.copied_up + 2 * work.activations_copied;
  estimate.time = Roofline(work, RatesOf(cluster));
  estimate.tokens_per_second =
      static_cast<double>(coordinator::MostSequences(config.batch()) * config.model().context()) /
      estimate.time.seconds();
  return estimate;
}

absl::StatusOr<std::optional<LargestModel>> FindLargestModel(const v1::Config& config, const Cluster& cluster) {
  constexpr double kPrecision = 1.002;
  const auto fitting = [&](double parameters) -> absl::StatusOr<std::optional<LargestModel>> {
    v1::Config changed = config;
    absl::StatusOr<v1::ModelConfig> shape = ShapeOf(parameters, config.model().context(), config.model().vocab());
    // There is no such model, or this tensor group cannot share it.
    if (!shape.ok() || !model::CheckParts(*shape, config.parallel().tensor()).ok()) return std::nullopt;
    *changed.mutable_model() = *shape;
    ZF_ASSIGN_OR_RETURN(const memory::MemoryPlan plan, PlanMemoryOf(changed));
    if (!NeedOf(plan, cluster).fits()) return std::nullopt;
    ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(changed.model()));
    return LargestModel{changed.model(), static_cast<double>(spec.parameters())};
  };
  std::optional<LargestModel> best;
  double high = kLargestShape;
  // From large to small, since shapes of few parameters may not exist for this vocabulary or tensor group.
  for (double size = high; size >= kSmallestShape && !best; size /= 2) {
    ZF_ASSIGN_OR_RETURN(best, fitting(size));
    if (!best) high = size;
  }
  if (!best) return best;
  for (double low = high / 2; high / low > kPrecision;) {
    const double middle = (low + high) / 2;
    ZF_ASSIGN_OR_RETURN(std::optional<LargestModel> found, fitting(middle));
    (found ? low : high) = middle;
    if (found) best = found;
  }
  return best;
}

absl::StatusOr<std::optional<int64_t>> FindLongestContext(const v1::Config& config, const Cluster& cluster) {
  const int64_t tokens = std::lcm(int64_t{64}, config.parallel().tensor());  // divisible by a tensor group
  const int64_t most = model::kMostContext / tokens;
  const auto fits = [&](int64_t steps) -> absl::StatusOr<bool> {
    v1::Config changed = config;
    changed.mutable_model()->set_context(steps * tokens);
    ZF_ASSIGN_OR_RETURN(const memory::MemoryPlan plan, PlanMemoryOf(changed));
    return NeedOf(plan, cluster).fits();
  };
  int64_t low = 0, high = 1;  // `low` fits, in steps; `high` is the smallest that is not known to
  while (high <= most) {
    ZF_ASSIGN_OR_RETURN(const bool enough, fits(high));
    if (!enough) break;
    low = high;
    high *= 2;
  }
  high = std::min(high, most + 1);
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    ZF_ASSIGN_OR_RETURN(const bool enough, fits(middle));
    (enough ? low : high) = middle;
  }
  if (low == 0) return std::nullopt;
  return low * tokens;
}

absl::StatusOr<std::optional<int64_t>> FindSmallestCluster(const v1::Config& config, const Cluster& cluster) {
  const int64_t tensor = config.parallel().tensor();
  std::vector<int64_t> numbers;
  for (int64_t n = tensor; n <= coordinator::kMostRanks; n += n < cluster.node_gpus ? tensor : cluster.node_gpus) {
    if (n % tensor == 0) numbers.push_back(n);
  }
  size_t low = 0, high = numbers.size();  // binary search for the first index that fits
  while (low < high) {
    const size_t middle = (low + high) / 2;
    Cluster changed = cluster;
    changed.gpus = numbers[middle];
    ZF_ASSIGN_OR_RETURN(const memory::MemoryPlan plan, PlanMemoryOf(WithWorkers(config, numbers[middle])));
    if (NeedOf(plan, changed).fits()) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (low == numbers.size()) return std::nullopt;
  return numbers[low];
}

}  // namespace zerofleet::cli
