// Shards: valid safetensors with the digest they report, never over another file, durable once reported.
#include "worker/checkpoint/shard_writer.h"

#include <sys/resource.h>

#include <cerrno>
#include <csignal>

#include "base/digest.h"
#include "base/file_calls_testing.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ShardWriterTest : public CheckpointTest {
 protected:
  absl::StatusOr<v1::ShardFile> Write(const std::string& step_dir, int64_t elements) {
    std::vector<coordinator::PlacedRange> ranges;
    if (elements > 0) ranges = {{0, elements, 0}};
    return WriteState(step_dir, 0, ranges);
  }
};

TEST_F(ShardWriterTest, WritesSafetensorsAndReportsItsDigest) {
  auto entry = Write(Path("s"), 1000);
  ASSERT_TRUE(entry.ok()) << entry.status();
  const std::string path = Path("s/rank-00000.safetensors");
  EXPECT_EQ(entry->name(), "rank-00000.safetensors");
  EXPECT_EQ(entry->bytes(), FileBytes(path).value());
  EXPECT_EQ(entry->xxh3_128(), Digest128(Contents(path)));
  auto header = ReadSafetensorsHeader(path);
  ASSERT_TRUE(header.ok()) << header.status();
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : header->tensors) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.dtype, "F32");
    EXPECT_THAT(tensor.shape, ElementsAre(1000));
  }
  // Users and their scripts read these names: they must not change without a new format version.
  EXPECT_THAT(names, ElementsAre("master", "exp_avg", "exp_avg_sq"));
}

TEST_F(ShardWriterTest, HoldsTheVectorsOfItsOptimizer) {
  for (const optim::OptimizerRow& optimizer : optim::Optimizers()) {
    ASSERT_TRUE(WriteState(Path(optimizer.name), 0, {{0, 1000, 0}}, optimizer).ok());
    const std::string path = Path(std::string(optimizer.name) + "/rank-00000.safetensors");
    const SafetensorsHeader header = ReadSafetensorsHeader(path).value();
    ASSERT_EQ(header.tensors.size(), optimizer.vectors.size());
    for (size_t v = 0; v < header.tensors.size(); ++v) EXPECT_EQ(header.tensors[v].name, optimizer.vectors[v].name);
    EXPECT_EQ(FileBytes(path).value() - header.data_begin, 1000 * optimizer.StateBytesPerParameter());
  }
}

TEST_F(ShardWriterTest, ARankThatOwnsNothingWritesEmptyVectors) {
  auto entry = Write(Path("s"), 0);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->ranges_size(), 0);
  EXPECT_TRUE(ReadSafetensorsHeader(Path("s/rank-00000.safetensors")).ok());
}

// Not even an orphaned worker of the same generation can touch what another process writes.
TEST_F(ShardWriterTest, AFileThatIsThereIsNeverOpened) {
  ASSERT_TRUE(CreateDirectories(Path("s")).ok());
  Overwrite(Path("s/rank-00000.safetensors"), "another's");
  EXPECT_EQ(Write(Path("s"), 10).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Contents(Path("s/rank-00000.safetensors")), "another's");
}

// A worker that outlived its run must not create a removed checkpoint directory again.
TEST_F(ShardWriterTest, TheParentDirectoryIsNotMade) {
  EXPECT_EQ(Write(Path("gone/s"), 10).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(FileExists(Path("gone")));
}

TEST_F(ShardWriterTest, TheFileAndItsNameAreSyncedInThisOrder) {
  FileCallLog log(directory_);
  ASSERT_TRUE(Write(Path("s"), 10).ok());
  EXPECT_THAT(log.calls(), ElementsAre("write s/rank-00000.safetensors", "fsync s/rank-00000.safetensors", "fsync s"));
}

TEST_F(ShardWriterTest, AFailedSyncFailsTheSave) {
  for (const char* name : {"s/rank-00000.safetensors", "s"}) {
    FileCallLog log(directory_);
    log.FailFsync(name, EIO);
    absl::Status status = Write(Path("s"), 10).status();
    EXPECT_EQ(ExitCode(status), 3) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cannot fsync")) << name;
    EXPECT_FALSE(FileExists(Path("s/rank-00000.safetensors")));
  }
}

// A file-size limit fails the write half way, as a full disk does.
TEST_F(ShardWriterTest, AFullDiskFailsTheSaveAndLeavesNoFile) {
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limited = before;
  limited.rlim_cur = 100000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  absl::Status status = Write(Path("s"), 20000).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank-00000.safetensors: cannot write"));
  EXPECT_FALSE(FileExists(Path("s/rank-00000.safetensors")));
}

// Not even root can make directories in sysfs.
TEST_F(ShardWriterTest, ADirectoryThatCannotBeMadeIsNamed) {
  absl::Status status = Write("/sys/kernel/zerofleet", 10).status();
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/sys/kernel/zerofleet: cannot create"));
}

}  // namespace
}  // namespace zerofleet::checkpoint
