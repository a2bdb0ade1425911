// The data bench measures something, and leaves nothing behind.
#include "bench/data_benches.h"

#include <unistd.h>

#include <string>

#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet::bench {
namespace {

TEST(DataBenches, MeasuresAndCleansUp) {
  const std::string directory = JoinPath(::testing::TempDir(), "zerofleet_data_bench_" + std::to_string(getpid()));
  ASSERT_TRUE(CreateDirectories(directory).ok());
  const auto rates =
      BenchData({.directory = directory, .tokens = 10'000, .context = 32, .micro_sequences = 4}, /*rounds=*/1);
  ASSERT_TRUE(rates.ok()) << rates.status();
  ASSERT_EQ(rates->size(), 3u);
  for (const DataRate& rate : *rates) {
    EXPECT_GT(rate.tokens_per_second, 0) << rate.order;
    EXPECT_GT(rate.read_tokens_per_second, 0) << rate.order;
  }
  EXPECT_TRUE(ListDirectory(directory).value().empty());
  EXPECT_TRUE(RemoveTree(directory).ok());
}

TEST(DataBenches, RefusesTooLittleAndNowhereToWriteIt) {
  EXPECT_EQ(BenchData({.directory = ::testing::TempDir(), .tokens = 1}, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BenchData({.directory = JoinPath(::testing::TempDir(), "not/there")}, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zerofleet::bench
