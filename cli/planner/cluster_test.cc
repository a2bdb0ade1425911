// Flags of a cluster, as users write them and as they get them wrong.
#include "cli/planner/cluster.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

TEST(Cluster, ReadsWhatItsFlagsSay) {
  const Cluster cluster = *ParseCluster({.gpus = "400",
                                         .gpu = "v100",
                                         .gpu_memory = "32GB",
                                         .node_gpus = "16",
                                         .link = "100Gb/s",
                                         .host_memory = "1.5TiB",
                                         .efficiency = "0.4",
                                         .nvme = "20GB/s"});
  EXPECT_EQ(cluster.gpus, 400);
  EXPECT_EQ(cluster.nodes(), 25);
  EXPECT_EQ(cluster.device_bytes, 32'000'000'000);
  EXPECT_EQ(cluster.host_bytes, int64_t{1536} << 30);
  EXPECT_EQ(cluster.host_bytes_per_gpu(), static_cast<double>(int64_t{96} << 30));
  EXPECT_EQ(cluster.link_bytes_per_second, 12.5e9);
  EXPECT_EQ(cluster.efficiency, 0.4);
  EXPECT_EQ(cluster.nvme_bytes_per_second, 20e9);
  EXPECT_THAT(ParseCluster({.nvme = "20GB"}).status().message(), HasSubstr("--nvme: must be a bandwidth such as"));
  EXPECT_TRUE((ClusterFlags{.nvme = "20GB/s"}).given());
  EXPECT_EQ(ParseCluster({})->device_bytes, int64_t{80} << 30);
  EXPECT_EQ(ParseCluster({.gpu = "h200"})->device_bytes, int64_t{141} << 30);
  // The only node is not full: the devices in use share all of its host memory.
  EXPECT_EQ(ParseCluster({.gpus = "2", .host_memory = "8GiB"})->host_bytes_per_gpu(), double(int64_t{4} << 30));
}

TEST(Cluster, BadFlagsAreOneLineThatSaysWhatWouldBeRight) {
  for (const char* const bad : {"0", "-1", "", "80", "80G", "80gib", "nanGiB", "infGiB", "1e5GiB", "0GiB", "-4GiB",
                                "99999999999999999999TiB", "80GiB ", "1Gb", "1,5GiB"}) {
    const absl::Status status = ParseSize("--gpu-memory", bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(status.message(), HasSubstr("--gpu-memory: must be a size such as 80GiB")) << bad;
  }
  for (const char* const bad : {"50", "50GB", "0GB/s", "-1GB/s", "nanGB/s", "50GB/sec", "9e99GB/s", "/s"}) {
    EXPECT_THAT(ParseBandwidth("--link", bad).status().message(), HasSubstr("--link: must be a bandwidth such as"))
        << bad;
  }
  for (const char* const bad : {"0", "-8", "1.5", "nan", "16385", "99999999999999999999", "8 ", "0x8"}) {
    EXPECT_EQ(ParseCluster({.gpus = bad}).status().message(),
              std::string("--gpus: must be a whole number from 1 to 16384, got \"") + bad + "\"");
  }
  for (const char* const bad : {"0", "1.01", "-0.5", "nan", "half"}) {
    EXPECT_THAT(ParseCluster({.efficiency = bad}).status().message(), HasSubstr("--efficiency: must be a share"));
  }
  EXPECT_EQ(ParseCluster({.gpu = "h1000"}).status().message(),
            "--gpu: must be v100, a100, a100-40, l40s, h100, h200, b200, got \"h1000\"; did you mean h100?");
  EXPECT_THAT(ParseCluster({.gpu = "\x01"}).status().message(), HasSubstr("\\x01"));
}

TEST(Cluster, EveryDeviceHasFigures) {
  for (const GpuRow& row : GpuRows()) {
    EXPECT_GT(row.memory_bytes, int64_t{30} << 30) << row.name;
    EXPECT_GT(row.flops_per_second, 100 * row.memory_bytes_per_second) << row.name;
    EXPECT_GT(row.memory_bytes_per_second, row.peer_bytes_per_second) << row.name;
    EXPECT_GE(row.peer_bytes_per_second, row.host_bytes_per_second) << row.name;
  }
}

}  // namespace
}  // namespace zerofleet::cli
