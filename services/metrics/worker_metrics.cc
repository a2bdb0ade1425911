// The table of worker metrics and what updates them; see worker_metrics.h.
#include "services/metrics/worker_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "services/common/refusals.h"

namespace zerofleet::services {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;

// The metrics, in the order of kRows.
enum Metric {
  kInfo,
  kStep,
  kLoss,
  kValidationLoss,
  kGradNorm,
  kLearningRate,
  kLossScale,
  kSkippedSteps,
  kTokens,
  kStepDuration,
  kUtilization,
  kMemory,
  kMemoryPeak,
  kDeviceMemoryTotal,
  kDeviceMemoryUsed,
  kDeviceMemoryRuntime,
  kAllocatorReserved,
  kAllocatorAllocated,
  kAllocatorLargestFree,
  kFragmentation,
  kCollectiveBytes,
  kCollectiveDuration,
  kCollectiveBandwidth,
  kRefusedShapes,
  kLinkBytes,
  kRefusedClients,
  kMetricCount,
};

enum class Type { kGauge, kCounter, kHistogram };

struct Row {
  Metric metric;
  Type type;
  const char* name;
  const char* help;
};

constexpr Row kRows[] = {
    {kInfo, Type::kGauge, "zerofleet_worker_info", "What this worker is, in its labels; always 1."},
    {kStep, Type::kGauge, "zerofleet_worker_step", "Optimizer steps completed."},
    {kLoss, Type::kGauge, "zerofleet_worker_loss", "Mean cross-entropy per token of the last step, in nats."},
    {kValidationLoss, Type::kGauge, "zerofleet_worker_validation_loss",
     "Mean cross-entropy per token of the last evaluation, in nats."},
    {kGradNorm, Type::kGauge, "zerofleet_worker_grad_norm", "L2 norm of the last step's gradient, before clipping."},
    {kLearningRate, Type::kGauge, "zerofleet_worker_learning_rate", "Learning rate of the last step."},
    {kLossScale, Type::kGauge, "zerofleet_worker_loss_scale", "Factor on the loss in fp16; 1 in other precisions."},
    {kSkippedSteps, Type::kCounter, "zerofleet_worker_skipped_steps_total",
     "Steps whose fp16 gradient overflowed, which left the state alone."},
    {kTokens, Type::kCounter, "zerofleet_worker_tokens_total", "Tokens this rank trained on."},
    {kStepDuration, Type::kHistogram, "zerofleet_worker_step_duration_seconds",
     "Time of one step, by phase; phases may overlap."},
    {kUtilization, Type::kGauge, "zerofleet_worker_model_flops_utilization_ratio",
     "Model FLOP/s of the last step over the device's peak."},
    {kMemory, Type::kGauge, "zerofleet_worker_memory_bytes", "Memory in use, by space and category."},
    {kMemoryPeak, Type::kGauge, "zerofleet_worker_memory_peak_bytes",
     "Most memory ever in use, by space and category."},
    {kDeviceMemoryTotal, Type::kGauge, "zerofleet_worker_device_memory_total_bytes", "Memory of the GPU."},
    {kDeviceMemoryUsed, Type::kGauge, "zerofleet_worker_device_memory_used_bytes",
     "Memory in use on the GPU as its driver counts it, other processes' too."},
    {kDeviceMemoryRuntime, Type::kGauge, "zerofleet_worker_device_memory_runtime_bytes",
     "Memory in use on the GPU outside the allocator: context, libraries, workspaces."},
    {kAllocatorReserved, Type::kGauge, "zerofleet_worker_allocator_reserved_bytes",
     "Memory the arena has reserved: the sum of the memory plan, less what buffers share."},
    {kAllocatorAllocated, Type::kGauge, "zerofleet_worker_allocator_allocated_bytes",
     "Memory the arena has handed out: what the phase of a step uses that uses most."},
    {kAllocatorLargestFree, Type::kGauge, "zerofleet_worker_allocator_largest_free_block_bytes",
     "The largest block of the arena that is free in that phase."},
    {kFragmentation, Type::kGauge, "zerofleet_worker_fragmentation_ratio",
     "1 - largest free block / all free memory, in that phase; 0 when nothing is free."},
    {kCollectiveBytes, Type::kCounter, "zerofleet_worker_collective_bytes_total",
     "Bytes this rank sent in collectives."},
    {kCollectiveDuration, Type::kHistogram, "zerofleet_worker_collective_duration_seconds",
     "Time of one collective, from its start to its completion."},
    {kCollectiveBandwidth, Type::kGauge, "zerofleet_worker_collective_bus_bandwidth_bytes_per_second",
     "Bus bandwidth of the last collective."},
    {kRefusedShapes, Type::kCounter, "zerofleet_worker_refused_shapes_total",
     "Shapes of an op that the GPU's libraries refuse, so that it runs on slower kernels."},
    {kLinkBytes, Type::kCounter, "zerofleet_worker_link_bytes_total",
     "What offload copied between device and host memory."},
    {kRefusedClients, Type::kCounter, "zerofleet_worker_refused_clients_total",
     "Clients of its ports, and peers of its collectives, turned away, by what they lacked."},
};

constexpr bool InOrder() {
  for (int i = 0; i < kMetricCount; ++i) {
    if (kRows[i].metric != i) return false;
  }
  return std::size(kRows) == kMetricCount;
}
static_assert(InOrder());

// 1 ms to 100 s for phases; collectives start lower, since small ones take tens of microseconds. Three steps to a
// decade: a quantile is off by no more than the factor between neighbours, 2.5.
const Histogram::BucketBoundaries& PhaseBuckets() {
  static const Histogram::BucketBoundaries buckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                      0.5,   1,      2.5,   5,    10,    25,   50,  100};
  return buckets;
}
const Histogram::BucketBoundaries& CollectiveBuckets() {
  static const Histogram::BucketBoundaries buckets = {
      0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
      0.05,    0.1,      0.25,    0.5,    1,       2.5,    5,     10,     25,    50,   100};
  return buckets;
}

double Fragmentation(int64_t free_bytes, int64_t largest_free_bytes) {
  if (free_bytes <= 0) return 0;
  return 1 - static_cast<double>(largest_free_bytes) / static_cast<double>(free_bytes);
}

}  // namespace

struct WorkerMetrics::Families {
  std::array<Family<Gauge>*, kMetricCount> gauges = {};
  std::array<Family<Counter>*, kMetricCount> counters = {};
  std::array<Family<Histogram>*, kMetricCount> histograms = {};

  absl::Mutex mutex;
  Gauge* info ABSL_GUARDED_BY(mutex) = nullptr;

  // A family keeps one metric for a set of labels: Add finds it again.
  void Set(Metric metric, double value, const Labels& labels = {}) { gauges[metric]->Add(labels).Set(value); }
};

WorkerMetrics::WorkerMetrics(prometheus::Registry& registry) : families_(std::make_unique<Families>()) {
  for (const Row& row : kRows) {
    switch (row.type) {
      case Type::kGauge:
        families_->gauges[row.metric] = &prometheus::BuildGauge().Name(row.name).Help(row.help).Register(registry);
        break;
      case Type::kCounter:
        families_->counters[row.metric] = &prometheus::BuildCounter().Name(row.name).Help(row.help).Register(registry);
        break;
      case Type::kHistogram:
        families_->histograms[row.metric] =
            &prometheus::BuildHistogram().Name(row.name).Help(row.help).Register(registry);
        break;
    }
  }
  SetLossScale(1);
  families_->counters[kSkippedSteps]->Add({});
  for (const char* cause : Refusals::kCauses) families_->counters[kRefusedClients]->Add({{"cause", cause}});
  families_->counters[kRefusedClients]->Add({{"cause", Refusals::kKey}});
}

WorkerMetrics::WorkerMetrics() : WorkerMetrics(std::make_unique<prometheus::Registry>()) {}

WorkerMetrics::WorkerMetrics(std::unique_ptr<prometheus::Registry> own) : WorkerMetrics(*own) {
  own_registry_ = std::move(own);
}

WorkerMetrics::~WorkerMetrics() = default;

std::vector<std::string> WorkerMetrics::Names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return names;
}

void WorkerMetrics::SetIdentity(const trainer::WorkerIdentity& identity) {
  const Labels labels = {{"rank", std::to_string(identity.rank)},
                         {"world_size", std::to_string(identity.world_size)},
                         {"zero_stage", std::to_string(identity.zero_stage)},
                         {"precision", identity.precision},
                         {"device", identity.device},
                         {"device_description", identity.device_description},
                         {"version", identity.version},
                         {"run", identity.run}};
  absl::MutexLock lock(&families_->mutex);
  if (families_->info != nullptr) families_->gauges[kInfo]->Remove(families_->info);
  families_->info = &families_->gauges[kInfo]->Add(labels);
  families_->info->Set(1);
}

void WorkerMetrics::StepDone(const trainer::StepFigures& figures) {
  families_->Set(kStep, static_cast<double>(figures.step));
  families_->Set(kLoss, figures.loss);
  families_->Set(kGradNorm, figures.grad_norm);
  families_->Set(kLearningRate, figures.learning_rate);
  families_->Set(kUtilization, figures.mfu);
  families_->counters[kTokens]->Add({}).Increment(static_cast<double>(figures.tokens));
}

void WorkerMetrics::Evaluated(const v1::EvaluateEvent& evaluation) {
  families_->Set(kValidationLoss, evaluation.loss());
  for (const v1::SetLoss& set : evaluation.sets()) families_->Set(kValidationLoss, set.loss(), {{"set", set.name()}});
}

void WorkerMetrics::PhaseDone(zero::StepPhase phase, double seconds) {
  const auto index = static_cast<size_t>(phase);
  ZF_CHECK(index < std::size(zero::kPhaseNames));
  families_->histograms[kStepDuration]->Add({{"phase", zero::kPhaseNames[index]}}, PhaseBuckets()).Observe(seconds);
}

void WorkerMetrics::SetLossScale(double scale) { families_->Set(kLossScale, scale); }

void WorkerMetrics::StepSkipped() { families_->counters[kSkippedSteps]->Add({}).Increment(); }

void WorkerMetrics::SetDeviceMemory(int64_t total_bytes, int64_t used_bytes, int64_t runtime_bytes) {
  families_->Set(kDeviceMemoryTotal, static_cast<double>(total_bytes));
  families_->Set(kDeviceMemoryUsed, static_cast<double>(used_bytes));
  families_->Set(kDeviceMemoryRuntime, static_cast<double>(runtime_bytes));
}

void WorkerMetrics::SetMemory(std::string_view space, std::string_view category, int64_t current_bytes,
                              int64_t peak_bytes) {
  const Labels labels = {{"space", std::string(space)}, {"category", std::string(category)}};
  families_->Set(kMemory, static_cast<double>(current_bytes), labels);
  families_->Set(kMemoryPeak, static_cast<double>(peak_bytes), labels);
}

void WorkerMetrics::SetAllocator(std::string_view space, int64_t reserved_bytes, int64_t allocated_bytes,
                                 int64_t largest_free_bytes) {
  const Labels labels = {{"space", std::string(space)}};
  families_->Set(kAllocatorReserved, static_cast<double>(reserved_bytes), labels);
  families_->Set(kAllocatorAllocated, static_cast<double>(allocated_bytes), labels);
  families_->Set(kAllocatorLargestFree, static_cast<double>(largest_free_bytes), labels);
  families_->Set(kFragmentation, Fragmentation(reserved_bytes - allocated_bytes, largest_free_bytes), labels);
}

void WorkerMetrics::CollectiveDone(const trainer::CollectiveFigures& figures) {
  const Labels labels = {{"operation", std::string(figures.operation)},
                         {"group", std::string(figures.group)},
                         {"backend", std::string(figures.backend)}};
  families_->counters[kCollectiveBytes]->Add(labels).Increment(static_cast<double>(figures.sent_bytes));
  families_->histograms[kCollectiveDuration]->Add(labels, CollectiveBuckets()).Observe(figures.seconds);
  families_->Set(kCollectiveBandwidth, figures.bus_bandwidth, labels);
}

void WorkerMetrics::ShapeRefused(std::string_view op) {
  families_->counters[kRefusedShapes]->Add({{"operation", std::string(op)}}).Increment();
}

void WorkerMetrics::LinkCopied(std::string_view direction, int64_t bytes) {
  families_->counters[kLinkBytes]->Add({{"direction", std::string(direction)}}).Increment(static_cast<double>(bytes));
}

void WorkerMetrics::CountRefusal(const char* cause) {
  families_->counters[kRefusedClients]->Add({{"cause", cause}}).Increment();
}

}  // namespace zerofleet::services
