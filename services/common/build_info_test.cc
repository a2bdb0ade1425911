// The facts of the build are there and do not change between calls.
#include "services/common/build_info.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

using ::testing::MatchesRegex;

TEST(BuildInfo, IsComplete) {
  const BuildInfo& info = GetBuildInfo();
  EXPECT_THAT(info.version, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(info.revision, MatchesRegex("unknown|[0-9a-f]+"));
  EXPECT_THAT(info.build_id, MatchesRegex("[0-9a-f]{40}"));  // SHA-1
}

}  // namespace
}  // namespace zerofleet::services
