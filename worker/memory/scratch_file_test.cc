// A file without a name: what is written is read, nothing is left behind, and a full disk is reported at once.
#include "worker/memory/scratch_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kBlock = ScratchFile::kBlock;

class ScratchFileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  const std::string directory_ = absl::StrCat(testing::TempDir(), "/scratch_file_test");
};

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
std::unique_ptr<std::byte[], Free> Blocks(int64_t count, int value) {
  std::unique_ptr<std::byte[], Free> blocks(static_cast<std::byte*>(std::aligned_alloc(kBlock, count * kBlock)));
  std::fill_n(blocks.get(), count * kBlock, static_cast<std::byte>(value));
  return blocks;
}

TEST_F(ScratchFileTest, HoldsWhatIsWrittenAndHasNoName) {
  const auto file = ScratchFile::Create(absl::StrCat(directory_, "/a/b"), "states", 4 * kBlock);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT((*file)->path(), HasSubstr("/a/b/states-"));
  const auto other = ScratchFile::Create(absl::StrCat(directory_, "/a/b"), "states", kBlock);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE((*other)->path(), (*file)->path());
  EXPECT_THAT(*ListDirectory(absl::StrCat(directory_, "/a/b")), IsEmpty());
  const auto wrote = Blocks(2, 7);
  ASSERT_TRUE((*file)->Write(kBlock, {wrote.get(), 2 * kBlock}).ok());
  const auto read = Blocks(4, 1);
  ASSERT_TRUE((*file)->Read(0, {read.get(), 4 * kBlock}).ok());
  for (int64_t i = 0; i < 4 * kBlock; ++i) {
    ASSERT_EQ(read.get()[i], std::byte(i < kBlock || i >= 3 * kBlock ? 0 : 7)) << i;
  }
}

TEST_F(ScratchFileTest, TellsWhatDoesNotFit) {
  constexpr int64_t kTooMuch = int64_t{1} << 50;
  const auto file = ScratchFile::Create(directory_, "states", kTooMuch);
  ASSERT_EQ(file.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(file.status().message()),
              AllOf(HasSubstr("/states-"), HasSubstr(": cannot take 1.0 PiB in "), HasSubstr(directory_)));
  EXPECT_TRUE(IsOfScratchFile(file.status()));  // so that a replacement on another node may do better
  EXPECT_THAT(*ListDirectory(directory_), IsEmpty());
}

// The bytes that the file system has set aside for the open files without a name below `directory`.
int64_t BytesTaken(const std::string& directory) {
  const std::string folder = std::filesystem::canonical(directory);
  int64_t bytes = 0;
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(descriptor.path(), closed);
    struct stat file = {};
    if (target.starts_with(folder) && stat(descriptor.path().c_str(), &file) == 0) bytes += file.st_blocks * 512;
  }
  return bytes;
}

TEST_F(ScratchFileTest, TakesItsRoomAtOnce) {
  constexpr int64_t kBytes = 64 * kBlock;
  ASSERT_TRUE(CreateDirectories(directory_).ok());
  const int probe = open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  const bool taken = probe >= 0 && posix_fallocate(probe, 0, kBytes) == 0 && BytesTaken(directory_) >= kBytes;
  if (probe >= 0) close(probe);
  if (!taken) GTEST_SKIP() << "this file system sets no room aside";
  const auto file = ScratchFile::Create(directory_, "states", kBytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_GE(BytesTaken(directory_), kBytes);
}

TEST_F(ScratchFileTest, TellsWhereItEnds) {
  const auto file = ScratchFile::Create(directory_, "states", 2 * kBlock);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto read = Blocks(2, 1);
  const absl::Status status = (*file)->Read(kBlock, {read.get(), 2 * kBlock});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ends at byte 8192, too early"));
}

TEST_F(ScratchFileTest, TellsAPathThatIsNoDirectory) {
  ASSERT_TRUE(WriteFileAtomically(directory_, "a file").ok());
  const auto file = ScratchFile::Create(directory_, "states", kBlock);
  EXPECT_TRUE(IsOfScratchFile(file.status())) << file.status();
}

}  // namespace
}  // namespace zerofleet::memory
