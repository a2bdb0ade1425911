// Every worker metric is exported under its name, and promtool finds no fault.
#include "services/metrics/worker_metrics.h"

#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "coordinator/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/metrics/metrics_document.h"
#include "worker/collective/communicator.h"
#include "worker/memory/arena.h"

namespace zerofleet::services {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

// Dashboards depend on these names: changing one here changes the public contract (docs/metrics.md).
const std::vector<std::string> kPublicNames = {
    "zerofleet_worker_info",
    "zerofleet_worker_step",
    "zerofleet_worker_loss",
    "zerofleet_worker_validation_loss",
    "zerofleet_worker_grad_norm",
    "zerofleet_worker_learning_rate",
    "zerofleet_worker_loss_scale",
    "zerofleet_worker_skipped_steps_total",
    "zerofleet_worker_refused_clients_total",
    "zerofleet_worker_tokens_total",
    "zerofleet_worker_step_duration_seconds",
    "zerofleet_worker_model_flops_utilization_ratio",
    "zerofleet_worker_memory_bytes",
    "zerofleet_worker_memory_peak_bytes",
    "zerofleet_worker_device_memory_total_bytes",
    "zerofleet_worker_device_memory_used_bytes",
    "zerofleet_worker_device_memory_runtime_bytes",
    "zerofleet_worker_allocator_reserved_bytes",
    "zerofleet_worker_allocator_allocated_bytes",
    "zerofleet_worker_allocator_largest_free_block_bytes",
    "zerofleet_worker_fragmentation_ratio",
    "zerofleet_worker_collective_bytes_total",
    "zerofleet_worker_collective_duration_seconds",
    "zerofleet_worker_collective_bus_bandwidth_bytes_per_second",
    "zerofleet_worker_refused_shapes_total",
    "zerofleet_worker_link_bytes_total",
};

std::string Text(const prometheus::Registry& registry) {
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

trainer::WorkerIdentity Identity(int rank) {
  return {.rank = rank,
          .world_size = 4,
          .zero_stage = 2,
          .precision = "bf16",
          .device = "cpu",
          .device_description = "a \"fast\" CPU",
          .version = "0.1.0",
          .run = "tiny"};
}

// Every metric, fed once.
void FeedAll(WorkerMetrics& metrics) {
  metrics.SetIdentity(Identity(1));
  metrics.StepDone({.step = 12, .loss = 2.5, .grad_norm = 0.75, .learning_rate = 3e-4, .tokens = 4096, .mfu = 0.42});
  v1::EvaluateEvent evaluation;
  evaluation.set_loss(2.75);
  v1::SetLoss& set = *evaluation.add_sets();
  set.set_name("wiki");
  set.set_loss(2.5);
  metrics.Evaluated(evaluation);
  for (size_t phase = 0; phase < std::size(zero::kPhaseNames); ++phase) {
    metrics.PhaseDone(static_cast<zero::StepPhase>(phase), 0.03);
  }
  metrics.SetLossScale(65536);
  metrics.StepSkipped();
  metrics.SetDeviceMemory(4096, 2048, 1024);
  metrics.SetMemory("device", "parameters", 1000, 2000);
  metrics.SetAllocator("device", 1000, 600, 100);
  metrics.ShapeRefused("AttentionBackward");
  metrics.LinkCopied("to_host", 64);
  metrics.CountRefusal("token");
  metrics.CollectiveDone({.operation = "all_gather",
                          .group = "data",
                          .backend = "ucx",
                          .sent_bytes = 512,
                          .seconds = 0.002,
                          .bus_bandwidth = 2.5e9});
}

TEST(WorkerMetrics, TheTableHoldsThePublicNames) {
  EXPECT_THAT(WorkerMetrics::Names(), UnorderedElementsAreArray(kPublicNames));
}

TEST(WorkerMetrics, EveryOneIsExportedWithWhatWasFed) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry);
  FeedAll(metrics);
  const std::string text = Text(registry);
  for (const std::string& name : kPublicNames) EXPECT_THAT(text, HasSubstr("# TYPE " + name + " ")) << name;
  for (const char* line : {
           "zerofleet_worker_step 12\n",
           "zerofleet_worker_refused_clients_total{cause=\"token\"} 1\n",
           "zerofleet_worker_refused_clients_total{cause=\"role\"} 0\n",
           "zerofleet_worker_refused_clients_total{cause=\"key\"} 0\n",
           "zerofleet_worker_refused_shapes_total{operation=\"AttentionBackward\"} 1\n",
           "zerofleet_worker_loss 2.5\n",
           "zerofleet_worker_validation_loss 2.75\n",
           "zerofleet_worker_validation_loss{set=\"wiki\"} 2.5\n",
           "run=\"tiny\"",
           "zerofleet_worker_grad_norm 0.75\n",
           "zerofleet_worker_loss_scale 65536\n",
           "zerofleet_worker_tokens_total 4096\n",
           "zerofleet_worker_step_duration_seconds_count{phase=\"gather\"} 1\n",
           "zerofleet_worker_step_duration_seconds_bucket{phase=\"data\",le=\"0.025\"} 0\n",
           "zerofleet_worker_step_duration_seconds_bucket{phase=\"data\",le=\"0.05\"} 1\n",
           "zerofleet_worker_allocator_largest_free_block_bytes{space=\"device\"} 100\n",
           "zerofleet_worker_fragmentation_ratio{space=\"device\"} 0.75\n",
           "device_description=\"a \\\"fast\\\" CPU\"",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("zerofleet_worker_memory_peak_bytes{"));
  EXPECT_THAT(text, HasSubstr("} 2000\n"));
}

// The label values that the program knows before it runs: those in its tables and enumerations.
TEST(WorkerMetrics, EveryLabelValueIsDocumented) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry);
  FeedAll(metrics);
  for (const char* space : {memory::SpaceName(memory::Space::kDevice), memory::SpaceName(memory::Space::kHost)}) {
    metrics.SetAllocator(space, 1000, 600, 100);
    for (int i = 0; i < memory::kCategories; ++i) {
      metrics.SetMemory(space, memory::CategoryName(static_cast<memory::Category>(i)), 1, 1);
    }
  }
  metrics.LinkCopied("to_device", 64);
  using collective::Operation;
  for (const char* group : {coordinator::kDataGroup, coordinator::kTensorGroup}) {
    for (const Operation operation : {Operation::kAllGather, Operation::kReduceScatter, Operation::kAllReduce}) {
      metrics.CollectiveDone({.operation = collective::OperationName(operation), .group = group, .backend = "ucx"});
    }
  }
  EXPECT_THAT(UndocumentedLabelValues(Text(registry)), testing::IsEmpty());
}

TEST(WorkerMetrics, CountersAndHistogramsAddUp) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry);
  FeedAll(metrics);
  FeedAll(metrics);
  const std::string text = Text(registry);
  EXPECT_THAT(text, HasSubstr("zerofleet_worker_tokens_total 8192\n"));
  EXPECT_THAT(text, HasSubstr("zerofleet_worker_step_duration_seconds_count{phase=\"forward\"} 2\n"));
}

TEST(WorkerMetrics, APhaseGoesByItsName) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry);
  metrics.PhaseDone(zero::StepPhase::kGather, 0.03);
  metrics.PhaseDone(zero::StepPhase::kReduce, 0.03);
  EXPECT_THAT(Text(registry), HasSubstr("phase=\"gather\""));
  EXPECT_THAT(Text(registry), HasSubstr("phase=\"reduce\""));
  EXPECT_THAT(Text(registry), Not(HasSubstr("phase=\"data\"")));
}

TEST(WorkerMetrics, ANewIdentityReplacesTheOld) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry);
  metrics.SetIdentity(Identity(1));
  metrics.SetIdentity(Identity(0));
  EXPECT_THAT(Text(registry), HasSubstr("rank=\"0\""));
  EXPECT_THAT(Text(registry), Not(HasSubstr("rank=\"1\"")));
  metrics.SetIdentity(Identity(0));
  EXPECT_THAT(Text(registry), HasSubstr("rank=\"0\""));
}

TEST(WorkerMetrics, NothingFreeIsNotFragmented) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry);
  metrics.SetAllocator("host", 1000, 1000, 0);
  EXPECT_THAT(Text(registry), HasSubstr("zerofleet_worker_fragmentation_ratio{space=\"host\"} 0\n"));
}

TEST(WorkerMetrics, PromtoolFindsNothingToSay) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus); the format went unchecked by it";
  }
  prometheus::Registry registry;
  WorkerMetrics metrics(registry);
  FeedAll(metrics);
  const std::string path = testing::TempDir() + absl::StrCat("/worker_metrics_", getpid(), ".prom");
  std::ofstream(path) << Text(registry);
  EXPECT_EQ(std::system(absl::StrCat("promtool check metrics < ", path).c_str()), 0);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace zerofleet::services
