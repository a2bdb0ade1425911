// Any world size reads what any other wrote, bit for bit; a damaged file is named.
#include "worker/checkpoint/shard_reader.h"

#include "gmock/gmock.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ShardReaderTest : public CheckpointTest {
 protected:
  // Loads rank `rank`'s part for a fleet of `world_size` and compares every element.
  static void ExpectLoads(const std::string& step_dir, int rank, int world_size) {
    auto manifest = ReadManifest(step_dir);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    std::vector<PlacedRange> wanted = PartitionMap(SmallSpec().units(), world_size).StoredRanges(rank);
    std::vector<std::vector<float>> loaded(3, std::vector<float>(State(0, wanted).size(), -1.0f));
    absl::Status status =
        LoadRanges(step_dir, *manifest, wanted, loaded[0].data(), loaded[1].data(), loaded[2].data());
    ASSERT_TRUE(status.ok()) << status;
    for (int vector = 0; vector < 3; ++vector) EXPECT_EQ(loaded[vector], State(vector, wanted)) << vector;
  }
  static std::string LoadError(const std::string& step_dir) {
    v1::CheckpointManifest manifest = ReadManifest(step_dir).value();
    int64_t elements = ManifestElements(manifest);
    std::vector<float> master(elements);
    absl::Status status = LoadRanges(step_dir, manifest, {{0, elements, 0}}, master.data(), nullptr, nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_EQ(VerifyCheckpoint(step_dir), status);
    return std::string(status.message());
  }
};

TEST_F(ShardReaderTest, AnyWorldSizeReadsAnyOther) {
  for (int written = 1; written <= 5; ++written) {
    std::string step_dir = Save(written, written);
    EXPECT_TRUE(VerifyCheckpoint(step_dir).ok()) << VerifyCheckpoint(step_dir);
    for (int world_size : {1, 2, 3, 4, 7, 16}) {
      for (int rank = 0; rank < world_size; ++rank) ExpectLoads(step_dir, rank, world_size);
    }
  }
}

// More than one buffer's worth, in two shards that a third rank's part straddles.
TEST_F(ShardReaderTest, LargeShardsAreReadInPieces) {
  const int64_t half = kShardChunkBytes / 4 + 777, total = 2 * half;
  v1::CheckpointManifest manifest = Manifest(1, 2);
  manifest.clear_tensors();
  v1::TensorEntry* tensor = manifest.add_tensors();
  tensor->set_name("t");
  tensor->set_dtype(kStoredDType);
  tensor->add_shape(total);
  tensor->set_flat_end(total);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<PlacedRange> ranges = {{rank * half, (rank + 1) * half, 0}};
    *manifest.add_files() =
        WriteShard(Path("s"), rank, ranges, State(0, ranges), State(1, ranges), State(2, ranges)).value();
  }
  ASSERT_TRUE(CommitManifest(Path("s"), manifest).ok());
  std::vector<PlacedRange> wanted = {{half - 1000, total - 5, 0}};
  std::vector<float> moment(total - 5 - half + 1000);
  ASSERT_TRUE(LoadRanges(Path("s"), manifest, wanted, nullptr, nullptr, moment.data()).ok());
  EXPECT_EQ(moment, State(2, wanted));
}

TEST_F(ShardReaderTest, ReadsOnlyTheFilesItNeeds) {
  std::string step_dir = Save(1, 4);
  ASSERT_TRUE(RemoveTree(JoinPath(step_dir, ShardFileName(3))).ok());
  ExpectLoads(step_dir, 0, 4);
  EXPECT_THAT(LoadError(step_dir), AllOf(HasSubstr("rank-00003.safetensors"), HasSubstr("missing")));
}

TEST_F(ShardReaderTest, ATruncatedFileIsNamed) {
  std::string step_dir = Save(1, 3), shard = JoinPath(step_dir, ShardFileName(1));
  std::string contents = Contents(shard);
  for (size_t length : {size_t{0}, size_t{5}, size_t{100}, contents.size() - 1}) {
    Overwrite(shard, contents.substr(0, length));
    EXPECT_THAT(LoadError(step_dir), AllOf(HasSubstr(shard), HasSubstr("truncated")));
  }
  Overwrite(shard, contents + "x");
  EXPECT_THAT(LoadError(step_dir), AllOf(HasSubstr(shard), HasSubstr("too long")));
}

TEST_F(ShardReaderTest, EveryFlippedBitIsFoundAndItsFileNamed) {
  std::string step_dir = Save(1, 3), shard = JoinPath(step_dir, ShardFileName(2));
  const std::string contents = Contents(shard);
  for (size_t byte = 0; byte < contents.size(); byte += byte < 300 ? 1 : 997) {
    std::string flipped = contents;
    flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << byte % 8));
    Overwrite(shard, flipped);
    EXPECT_THAT(LoadError(step_dir), HasSubstr(shard)) << byte;
  }
  Overwrite(shard, contents.substr(0, contents.size() - 1) + "?");
  EXPECT_THAT(LoadError(step_dir), HasSubstr("corrupt: its XXH3-128 is"));
}

TEST_F(ShardReaderTest, AnotherRanksFileIsNotMistaken) {
  std::string step_dir = Save(1, 3);
  Overwrite(JoinPath(step_dir, ShardFileName(0)), Contents(JoinPath(step_dir, ShardFileName(1))));
  EXPECT_THAT(LoadError(step_dir), HasSubstr("rank-00000.safetensors"));
}

TEST_F(ShardReaderTest, VerifyingWhatIsNotCommittedIsNotFound) {
  EXPECT_EQ(VerifyCheckpoint(Path("nothing")).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zerofleet
