// Files that change while they are read.
#include "worker/data/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::data {
namespace {

using ::testing::HasSubstr;

class TokenFileTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { Write(std::string(200000, 'a')); }
  void TearDown() override { ASSERT_TRUE(RemoveTree(path_).ok()); }

  // Writes in place, so that the inode stays.
  void Write(const std::string& contents, int64_t at = 0) {
    const int descriptor = open(path_.c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_EQ(pwrite(descriptor, contents.data(), contents.size(), at), static_cast<ssize_t>(contents.size()));
    close(descriptor);
  }
  // Sets a time that the file never had, whatever the clock's resolution.
  void Touch() {
    const struct timespec times[2] = {{++seconds_, 0}, {seconds_, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  }
  absl::StatusOr<std::string> Read(const TokenFile& file, int64_t offset, size_t bytes) {
    std::string into(bytes, '\0');
    absl::Status status = file.Read(offset, std::as_writable_bytes(std::span(into)));
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + ": "));
      EXPECT_THAT(std::string(status.message()), HasSubstr("must not change"));
      return status;
    }
    return into;
  }

  const std::string path_ = JoinPath(testing::TempDir(), "zerofleet_token_file_" + std::to_string(getpid()));
  int64_t seconds_ = 1000;
};

TEST_P(TokenFileTest, ReadsWhatIsThere) {
  Write("xyz", 100000);
  auto file = TokenFile::Open(path_, GetParam()).value();
  EXPECT_EQ(file->bytes(), 200000);
  EXPECT_EQ(file->head(), std::string(4096, 'a'));
  EXPECT_EQ(Read(*file, 99999, 5).value(), "axyza");
  EXPECT_EQ(Read(*file, 199999, 1).value(), "a");
}

TEST_P(TokenFileTest, ASizeThatChangesIsNamed) {
  auto file = TokenFile::Open(path_, GetParam()).value();
  ASSERT_EQ(truncate(path_.c_str(), 10), 0);
  EXPECT_THAT(std::string(Read(*file, 0, 4).status().message()),
              HasSubstr("had 200000 bytes when it was opened, now has 10"));
  ASSERT_EQ(truncate(path_.c_str(), 200001), 0);
  EXPECT_FALSE(Read(*file, 0, 4).ok());
}

TEST_P(TokenFileTest, ANewTimeOverTheSameBytesIsAccepted) {
  auto file = TokenFile::Open(path_, GetParam()).value();
  Touch();
  EXPECT_EQ(Read(*file, 5, 2).value(), "aa");
  Write(std::string(200000, 'b'));
  Touch();
  EXPECT_THAT(std::string(Read(*file, 5, 2).status().message()), HasSubstr("was rewritten"));
}

TEST_P(TokenFileTest, IdentityFollowsTheContents) {
  std::string before = TokenFile::Open(path_, GetParam()).value()->Identity();
  Touch();
  std::string touched = TokenFile::Open(path_, GetParam()).value()->Identity();
  EXPECT_NE(before, touched);
  Write("b", 199999);
  --seconds_;
  Touch();  // as after a copy that keeps times
  EXPECT_NE(TokenFile::Open(path_, GetParam()).value()->Identity(), touched);
}

TEST_P(TokenFileTest, HolesAreFound) {
  ASSERT_EQ(truncate(path_.c_str(), int64_t{1} << 40), 0);  // a terabyte of nothing
  auto file = TokenFile::Open(path_, GetParam()).value();
  EXPECT_EQ(file->SkipHole(0), 0);
  const int64_t next = file->SkipHole(int64_t{1} << 30);
  EXPECT_TRUE(next == file->bytes() || next == int64_t{1} << 30) << next;  // some file systems report no holes
}

INSTANTIATE_TEST_SUITE_P(KeptOpenOrNot, TokenFileTest, testing::Bool());

TEST(TokenFile, AReplacedFileIsNamedUnlessItIsKeptOpen) {
  const std::string path = JoinPath(testing::TempDir(), "zerofleet_token_file_r" + std::to_string(getpid()));
  ASSERT_TRUE(WriteFileAtomically(path, "before").ok());
  auto kept = TokenFile::Open(path, true).value(), reopened = TokenFile::Open(path, false).value();
  ASSERT_TRUE(WriteFileAtomically(path, "after!").ok());
  char into[6];
  EXPECT_TRUE(kept->Read(0, std::as_writable_bytes(std::span(into))).ok());
  EXPECT_EQ(std::string(into, 6), "before");
  EXPECT_THAT(std::string(reopened->Read(0, std::as_writable_bytes(std::span(into))).message()),
              HasSubstr("was replaced"));
  ASSERT_TRUE(RemoveTree(path).ok());
  EXPECT_EQ(reopened->Read(0, std::as_writable_bytes(std::span(into))).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zerofleet::data
