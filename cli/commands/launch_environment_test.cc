// Which environment variable counts, and what is refused.
#include "cli/commands/launch_environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

TEST(LaunchEnvironment, AWorkersNumberIsTheFlagsThenTorchrunsThenSlurms) {
  EXPECT_EQ(LocalRank({}, std::nullopt).value(), 0);
  EXPECT_EQ(LocalRank({.slurm_localid = "5"}, std::nullopt).value(), 5);
  EXPECT_EQ(LocalRank({.local_rank = "3", .slurm_localid = "0"}, std::nullopt).value(), 3);
  EXPECT_EQ(LocalRank({.local_rank = "x", .slurm_localid = "5"}, 2).value(), 2);
  EXPECT_EQ(LocalRank({.local_rank = "-1", .slurm_localid = "5"}, std::nullopt).status().message(),
            "LOCAL_RANK: must be 0 to 1023, got \"-1\"; correct it, or give --local-rank");
  EXPECT_THAT(std::string(LocalRank({.slurm_localid = "4x"}, std::nullopt).status().message()),
              HasSubstr("SLURM_LOCALID"));
}

TEST(LaunchEnvironment, ANodeIsNamedBySlurm) {
  EXPECT_EQ(NodeName({}, ""), "");
  EXPECT_EQ(NodeName({.slurmd_nodename = "n17"}, ""), "n17");
  EXPECT_EQ(NodeName({.slurmd_nodename = "n17"}, "machine-4"), "machine-4");
}

TEST(LaunchEnvironment, ANodesWorkersAreStartedOnce) {
  EXPECT_TRUE(CheckAloneOnNode({}, 8).ok());
  EXPECT_TRUE(CheckAloneOnNode({.local_world_size = "1", .slurm_tasks_per_node = "1(x4)"}, 8).ok());
  EXPECT_THAT(std::string(CheckAloneOnNode({.local_world_size = "8"}, 8).message()),
              HasSubstr("--local 8: starts the workers of a node, and this is one process of several there "
                        "(LOCAL_WORLD_SIZE is 8)"));
  for (const char* tasks : {"8", "8(x2)", "8,4"}) {
    EXPECT_THAT(std::string(CheckAloneOnNode({.slurm_tasks_per_node = tasks}, 8).message()),
                HasSubstr("(SLURM_STEP_TASKS_PER_NODE is 8)"));
  }
}

TEST(LaunchEnvironment, MasterAddrIsNoCoordinator) {
  EXPECT_TRUE(CheckCoordinatorGiven({.master_addr = "head"}, "head:7070").ok());
  EXPECT_EQ(CheckCoordinatorGiven({}, "").message(),
            "--coordinator: is missing; give HOST:PORT of `zerofleet coordinator`");
  EXPECT_THAT(std::string(CheckCoordinatorGiven({.master_addr = "head"}, "").message()),
              HasSubstr("(MASTER_ADDR, head, is where torch.distributed meets"));
}

}  // namespace
}  // namespace zerofleet::cli
