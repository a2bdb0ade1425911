// The coordinator bench forms a real fleet, loses members, and ends the run.
#include "bench/coordinator_benches.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gtest/gtest.h"
#include "services/coordinator/coordinator_server.h"
#include "worker/model/model_testing.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::bench {
namespace {

constexpr int kMembers = 70;  // more members than an assignment names

TEST(CoordinatorBenches, FormsALargeFleetAgainAndAgain) {
  const std::string directory = JoinPath(::testing::TempDir(), absl::StrCat("zerofleet_coordinator_bench_", getpid()));
  ASSERT_TRUE(CreateDirectories(directory).ok());
  services::CoordinatorOptions options;
  v1::Config& config = options.config;
  *config.mutable_model() = model::TestModelConfig(1, 8, 1, 8, 256);
  config.mutable_parallel()->set_workers(kMembers);
  config.mutable_parallel()->set_tensor(1);
  config.mutable_batch()->set_global_sequences(kMembers);
  config.mutable_optimizer()->set_name(optim::Optimizers().front().name);
  config.set_steps(10);
  config.mutable_checkpoint()->set_dir(JoinPath(directory, "checkpoints"));
  config.mutable_restart()->set_form_timeout_seconds(60);
  config.mutable_restart()->set_load_timeout_seconds(60);
  config.mutable_restart()->set_heartbeat_timeout_seconds(60);
  config.mutable_restart()->set_max_per_rank(10);
  config.mutable_restart()->set_spares(1);
  options.listen = "127.0.0.1:0";
  options.state_dir = JoinPath(directory, "state");
  options.resume = "none";
  auto server = services::CoordinatorServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto rate = BenchCoordinator({.coordinator = absl::StrCat("127.0.0.1:", (*server)->port()),
                                      .pid = getpid(),
                                      .members = kMembers,
                                      .sessions_per_connection = 32,
                                      .peers = 3,
                                      .losses = 2,
                                      .heartbeats_per_second = 1000,
                                      .heartbeat_seconds = 0.2});
  ASSERT_TRUE(rate.ok()) << rate.status();
  EXPECT_TRUE((*server)->Wait().ok());
  EXPECT_EQ(rate->members, kMembers);
  EXPECT_EQ(rate->connections, 3);
  EXPECT_GT(rate->view_seconds, 0);
  EXPECT_GE(rate->start_seconds, rate->view_seconds);
  EXPECT_GT(rate->reform_seconds, 0);
  EXPECT_GE(rate->reform_most_seconds, rate->reform_seconds);
  EXPECT_GT(rate->heartbeats_per_second, 0);
  EXPECT_GT(rate->formed_bytes, 1 << 20);
  EXPECT_GE(rate->peak_bytes, rate->last_bytes);
  server->reset();
  EXPECT_TRUE(RemoveTree(directory).ok());
}

TEST(CoordinatorBenches, NeedsAMember) {
  EXPECT_EQ(BenchCoordinator({.coordinator = "127.0.0.1:1", .members = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zerofleet::bench
