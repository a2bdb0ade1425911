// The checkpoint bench measures something, and leaves nothing behind.
#include "bench/checkpoint_benches.h"

#include <unistd.h>

#include <string>

#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet::bench {
namespace {

TEST(CheckpointBenches, MeasuresAndCleansUp) {
  const std::string directory =
      JoinPath(::testing::TempDir(), "zerofleet_checkpoint_bench_" + std::to_string(getpid()));
  ASSERT_TRUE(CreateDirectories(directory).ok());
  const auto rate = BenchCheckpoint({.directory = directory, .bytes = (1 << 20) + 5});
  ASSERT_TRUE(rate.ok()) << rate.status();
  EXPECT_EQ(rate->bytes, (1 << 20) / 12 * 12);
  EXPECT_GT(rate->write_bytes_per_second, 0);
  EXPECT_GT(rate->read_bytes_per_second, 0);
  EXPECT_GT(rate->disk_bytes_per_second, 0);
  EXPECT_TRUE(ListDirectory(directory).value().empty());
  EXPECT_TRUE(RemoveTree(directory).ok());
}

TEST(CheckpointBenches, RefusesNothingToWriteAndNowhereToWriteIt) {
  EXPECT_EQ(BenchCheckpoint({.directory = ::testing::TempDir(), .bytes = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BenchCheckpoint({.directory = JoinPath(::testing::TempDir(), "not/there")}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zerofleet::bench
