// Names of shard files.
#include "worker/checkpoint/shard_format.h"

#include "gtest/gtest.h"

namespace zerofleet::checkpoint {
namespace {

TEST(ShardFormatTest, NamesHaveFiveDigits) {
  EXPECT_EQ(ShardFileName(0), "rank-00000.safetensors");
  EXPECT_EQ(ShardFileName(123456), "rank-123456.safetensors");
  EXPECT_TRUE(IsShardFileName(ShardFileName(17)));
  EXPECT_FALSE(IsShardFileName("model.safetensors"));
  EXPECT_FALSE(IsShardFileName("rank-00000.safetensors.bak"));
}

}  // namespace
}  // namespace zerofleet::checkpoint
