// Metrics as numbers, from a page and from a real exporter.
#include "cli/launcher/scrape.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/metrics/metrics_exporter.h"
#include "services/metrics/worker_metrics.h"

namespace zerofleet::cli {
namespace {

TEST(Scrape, ReadsSeriesAndNothingElse) {
  const auto metrics = ParseMetrics(
      "# HELP a What it is, of 3.\n# TYPE a gauge\na 1.5\nb{space=\"device\",category=\"a b\"} 3e9\n\nnonsense\nc x\n");
  EXPECT_THAT(metrics, testing::ElementsAre(testing::Pair("a", 1.5),
                                            testing::Pair("b{space=\"device\",category=\"a b\"}", 3e9)));
}

TEST(Scrape, ReadsAnExporter) {
  const auto exporter = services::MetricsExporter::Start({.host = "127.0.0.1", .port = 0}).value();
  services::WorkerMetrics worker(exporter->registry());
  worker.SetDeviceMemory(300, 200, 50);
  const auto metrics = ScrapeMetrics(exporter->port());
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_EQ(metrics->at("zerofleet_worker_device_memory_used_bytes"), 200);
  EXPECT_EQ(metrics->at("zerofleet_worker_device_memory_runtime_bytes"), 50);
}

TEST(Scrape, SaysWhichPortDoesNotAnswer) {
  const int port = FreePorts(1).value();
  const absl::Status status = ScrapeMetrics(port).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(std::to_string(port)));
}

TEST(Scrape, FindsPortsInARow) {
  const int port = FreePorts(3).value();
  EXPECT_GE(port, 20000);
  EXPECT_LE(port + 2, 30000);
}

}  // namespace
}  // namespace zerofleet::cli
