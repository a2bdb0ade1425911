// The parts that need no processes; tests/integration tests the others.
#include "cli/launcher/local_fleet.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(LocalFleet, WaitsForTheCoordinatorLongerThanThatForItsStorage) {
  v1::Config config;
  config.mutable_restart()->set_form_timeout_seconds(300);
  EXPECT_EQ(CoordinatorStartSeconds(config), 30);  // without a stall timeout
  config.mutable_checkpoint()->set_stall_timeout_seconds(120);
  EXPECT_GT(CoordinatorStartSeconds(config), 120 + 300);
}

}  // namespace
}  // namespace zerofleet::cli
