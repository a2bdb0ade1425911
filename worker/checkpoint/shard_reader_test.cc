// Any world size reads what any other wrote, bit for bit; a damaged file is named.
#include "worker/checkpoint/shard_reader.h"

#include <fstream>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/file_calls_testing.h"
#include "gmock/gmock.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ShardReaderTest : public CheckpointTest {
 protected:
  // Loads rank `rank`'s part for a fleet of `world_size` and compares every element.
  static void ExpectLoads(const std::string& step_dir, int rank, int world_size) {
    auto manifest = ReadManifest(step_dir);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    std::vector<coordinator::PlacedRange> wanted =
        coordinator::PartitionMap(SmallSpec().units(), world_size).StoredRanges(rank);
    std::vector<std::vector<float>> loaded(3, std::vector<float>(State(0, wanted).size(), -1.0f));
    absl::Status status =
        LoadRanges(step_dir, *manifest, wanted, {loaded[0].data(), loaded[1].data(), loaded[2].data()});
    ASSERT_TRUE(status.ok()) << status;
    for (int vector = 0; vector < 3; ++vector) EXPECT_EQ(loaded[vector], State(vector, wanted)) << vector;
  }
  static std::string LoadError(const std::string& step_dir) {
    v1::CheckpointManifest manifest = ReadManifest(step_dir).value();
    int64_t elements = ManifestElements(manifest);
    std::vector<float> master(elements);
    absl::Status status = LoadRanges(step_dir, manifest, {{0, elements, 0}}, {master.data()});
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_EQ(VerifyCheckpoint(step_dir), status);
    return std::string(status.message());
  }
  // Flips a bit in place: to write or sync the file again takes as long as hundreds of flips.
  static void FlipBit(const std::string& path, size_t bit) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(bit / 8));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(bit / 8));
    file.put(static_cast<char>(byte ^ (1 << bit % 8)));
    ZF_CHECK(file.flush().good());
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

// With any number of parts, each rank finds the elements that it stores, as the ranks that wrote them had them.
TEST_F(ShardReaderTest, AnyTensorDegreeReadsAnyOther) {
  for (auto [written_by, written_parts] : {std::pair(1, 1), {2, 1}, {3, 3}, {6, 3}}) {
    const std::string step_dir = StepDirectory(directory_, written_by);
    const absl::Status committed =
        CommitCheckpoint(step_dir, WriteParts(step_dir, written_by, written_by, written_parts));
    ASSERT_TRUE(committed.ok()) << committed;
    ASSERT_TRUE(VerifyCheckpoint(step_dir).ok()) << VerifyCheckpoint(step_dir);
    const v1::CheckpointManifest manifest = ReadManifest(step_dir).value();
    EXPECT_EQ(manifest.format_version(), written_parts == 1 ? 3 : 4);
    for (auto [world_size, parts] : {std::pair(1, 1), {2, 1}, {3, 3}, {6, 3}}) {
      for (int rank = 0; rank < world_size; ++rank) {
        const model::ModelSpec spec =
            model::ModelSpec::Create(SmallConfig().model(), {.index = rank % parts, .count = parts}).value();
        const auto ranges = coordinator::PartitionMap(spec.units(), world_size / parts).StoredRanges(rank / parts);
        const std::vector<float> expected = StateOfPart(2, spec, ranges);
        std::vector<float> loaded(expected.size());
        const absl::Status status =
            LoadRanges(step_dir, manifest, spec.ToWhole(ranges), {nullptr, nullptr, loaded.data()});
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_EQ(loaded, expected) << "rank " << rank << " of " << world_size << " in groups of " << parts;
      }
    }
  }
}

// Vectors larger than one buffer, and a wanted range that straddles two shards.
TEST_F(ShardReaderTest, LargeShardsAreReadInPieces) {
  v1::CheckpointManifest manifest = Manifest(1, 2);
  manifest.mutable_config()->mutable_model()->set_vocab(2 * kShardChunkBytes / 4 / 15);
  const model::ModelSpec spec = model::ModelSpec::Create(manifest.config().model()).value();
  SetTensors(spec, &manifest);
  const coordinator::PartitionMap map(spec.units(), 2);
  ASSERT_TRUE(CreateDirectory(Path("s")).ok());
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<coordinator::PlacedRange> ranges = map.StoredRanges(rank);
    ASSERT_GT(ranges[0].elements(), kShardChunkBytes / 4);
    *manifest.add_files() = WriteState(Path("s"), rank, ranges).value();
  }
  ASSERT_TRUE(ValidateManifest(manifest).ok()) << ValidateManifest(manifest);
  std::vector<coordinator::PlacedRange> wanted = {{map.ShardElements(0) - 1000, spec.parameters() - 5, 0}};
  std::vector<float> moment(wanted[0].elements());
  ASSERT_TRUE(LoadRanges(Path("s"), manifest, wanted, {nullptr, nullptr, moment.data()}).ok());
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
  for (size_t byte = 0; byte < contents.size(); byte += byte < 300 ? 7 : 1997) {
    const size_t bit = 8 * byte + byte % 8;
    FlipBit(shard, bit);
    EXPECT_THAT(LoadError(step_dir), HasSubstr(shard)) << byte;
    FlipBit(shard, bit);
  }
  Overwrite(shard, contents.substr(0, contents.size() - 1) + "?");
  EXPECT_THAT(LoadError(step_dir), HasSubstr("corrupt: its XXH3-128 is"));
}

// Flips single bits in every file of a checkpoint: in the manifest every bit of the first 100 bytes, where its own
// digest is, and then one in 311, which visits each bit of a byte in turn; in each shard 20 bits, in header and data
// alike.
TEST_F(ShardReaderTest, FlippedBitsOfEveryFileAreAllFound) {
  const std::string step_dir = Save(1, 3);
  const std::string manifest = JoinPath(step_dir, kManifestName);
  std::string text = Contents(manifest);
  int64_t flips = 0, missed = 0;
  constexpr size_t kFirstBits = 8 * 100;
  for (size_t bit = 0; bit < 8 * text.size(); bit += bit < kFirstBits ? 1 : 311, ++flips) {
    const char byte = std::exchange(text[bit / 8], static_cast<char>(text[bit / 8] ^ (1 << bit % 8)));
    missed += ParseManifest(text).ok();  // this is all that VerifyCheckpoint checks of a manifest
    text[bit / 8] = byte;
  }
  EXPECT_EQ(missed, 0);
  constexpr size_t kFlipsPerShard = 20;
  const v1::CheckpointManifest read = ReadManifest(step_dir).value();
  for (int rank = 0; rank < 3; ++rank) {
    const std::string shard = JoinPath(step_dir, ShardFileName(rank));
    const size_t bits = 8 * Contents(shard).size();
    for (size_t i = 0; i < kFlipsPerShard; ++i, ++flips) {
      const size_t bit = bits * i / kFlipsPerShard / 8 * 8 + i % 8;
      FlipBit(shard, bit);
      missed += VerifyShards(step_dir, read).ok();
      FlipBit(shard, bit);
    }
  }
  EXPECT_EQ(missed, 0);
  EXPECT_GE(flips, 900);
  EXPECT_TRUE(VerifyCheckpoint(step_dir).ok());
  // Some flips go through the file as well.
  for (size_t bit = 0; bit < 8 * text.size(); bit += 997) {
    FlipBit(manifest, bit);
    EXPECT_EQ(VerifyCheckpoint(step_dir).code(), absl::StatusCode::kDataLoss) << bit;
    FlipBit(manifest, bit);
  }
}

TEST_F(ShardReaderTest, AnotherRanksFileIsNotMistaken) {
  std::string step_dir = Save(1, 3);
  Overwrite(JoinPath(step_dir, ShardFileName(0)), Contents(JoinPath(step_dir, ShardFileName(1))));
  EXPECT_THAT(LoadError(step_dir), HasSubstr("rank-00000.safetensors"));
}

TEST_F(ShardReaderTest, VerifyingWhatIsNotCommittedIsNotFound) {
  EXPECT_EQ(VerifyCheckpoint(Path("nothing")).code(), absl::StatusCode::kNotFound);
}

// A commit of hundreds of GB must not wait for a single reader, and must read from the storage, not what its node still
// has in memory from the write.
TEST_F(ShardReaderTest, FilesAreVerifiedSideBySideAndFromTheStorage) {
  const std::string step_dir = Save(1, 3);
  FileCallLog log(directory_);
  log.HoldUncache("rank-00000.safetensors");
  absl::Status verified;
  std::thread verifier([&] { verified = VerifyCheckpoint(step_dir); });
  log.WaitUntilHeld();
  for (const char* name : {"rank-00001", "rank-00002"}) {
    log.WaitFor(absl::StrCat("uncache step-00000001/", name, ".safetensors"));
  }
  log.ReleaseUncache();
  verifier.join();
  EXPECT_TRUE(verified.ok()) << verified;
}

TEST_F(ShardReaderTest, TheFirstBadFileIsNamedWhicheverIsReadFirst) {
  const std::string step_dir = Save(1, 12);
  for (const char* name : {"rank-00004", "rank-00009", "rank-00010"}) {
    const std::string path = JoinPath(step_dir, absl::StrCat(name, ".safetensors"));
    FlipBit(path, 8 * FileBytes(path).value() - 1);
  }
  FileCallLog log(directory_);
  log.HoldUncache("rank-00004.safetensors");
  absl::Status verified;
  std::thread verifier([&] { verified = VerifyCheckpoint(step_dir); });
  log.WaitUntilHeld();
  log.WaitFor("uncache step-00000001/rank-00009.safetensors");
  log.ReleaseUncache();
  verifier.join();
  EXPECT_THAT(std::string(verified.message()), HasSubstr("rank-00004.safetensors: corrupt"));
}

}  // namespace
}  // namespace zerofleet::checkpoint
