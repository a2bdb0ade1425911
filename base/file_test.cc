// Files: durable writes, refusals to overwrite, errors that name the path.
#include "base/file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/directory_testing.h"
#include "base/file_calls_testing.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using FileTest = DirectoryTest;

TEST_F(FileTest, AtomicWriteReplacesAndLeavesNoTemporary) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "one").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "second").ok());
  EXPECT_EQ(ReadSmallFile(Path("a"), 100).value(), "second");
  EXPECT_THAT(ListDirectory(Path("")).value(), ElementsAre("a"));
  EXPECT_EQ(ReadSmallFile(Path("a"), 3).status().code(), absl::StatusCode::kResourceExhausted);
}

// The order that makes a replacement survive a loss of power: the bytes, then the name, then the directory.
TEST_F(FileTest, AtomicWriteSyncsBeforeItRenames) {
  FileCallLog log(Path(""));
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "one").ok());
  EXPECT_THAT(log.calls(), ElementsAre("write a.tmp", "fsync a.tmp", "rename a.tmp a", "fsync ."));
}

TEST_F(FileTest, AFailedSyncKeepsTheOldContentAndIsNotRetried) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "old").ok());
  FileCallLog log(Path(""));
  log.FailFsync("a.tmp", EIO);
  absl::Status status = WriteFileAtomically(Path("a"), "new");
  EXPECT_EQ(ExitCode(status), 3);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.tmp: cannot fsync"));
  EXPECT_THAT(log.calls(), ElementsAre("write a.tmp", "fsync a.tmp"));
  EXPECT_EQ(ReadSmallFile(Path("a"), 100).value(), "old");
  log.FailFsync(".", EIO);
  EXPECT_FALSE(WriteFileAtomically(Path("b"), "new").ok());
}

// As when a child process ends meanwhile.
TEST_F(FileTest, TakingRoomGoesOnAfterASignal) {
  FileCallLog log(Path(""));
  log.InterruptAllocation(3);
  const auto output = MappedOutput::Create(Path("a"), 10'000);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ((*output)->bytes().size(), 10'000u);
}

TEST_F(FileTest, AResultReplacesRegularFilesAlone) {
  const auto refusal = [](const std::string& path) {
    const absl::Status status = WriteResultFile(path, "new");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    return std::string(status.message());
  };
  // A pipe stands for what is not a regular file. A link to one of the machine's devices would not do: the code under
  // test follows links, and with a fault in it a test that runs as root would replace the device.
  ASSERT_EQ(symlink("pipe", Path("device").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", Path("dangling").c_str()), 0);
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(Path("device")), HasSubstr("is not a regular file"));
  EXPECT_THAT(refusal(Path("pipe")), HasSubstr("is not a regular file"));
  EXPECT_THAT(refusal(Path("")), HasSubstr("is not a regular file"));
  EXPECT_THAT(refusal(Path("dangling")), HasSubstr("is a link to nothing"));
  EXPECT_THAT(refusal(Path("none/a")), HasSubstr("is in no directory"));
  EXPECT_THAT(refusal(""), HasSubstr("\"\" is in no directory"));
  EXPECT_TRUE(IsSymlink(Path("device")));
  EXPECT_TRUE(IsSymlink(Path("dangling")));
}

TEST_F(FileTest, AResultIsWrittenThroughALinkAndTouchesNothingElse) {
  ASSERT_TRUE(CreateDirectory(Path("elsewhere")).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("elsewhere/a"), "old").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("elsewhere/a.tmp"), "another's").ok());
  ASSERT_EQ(symlink("elsewhere/a", Path("link").c_str()), 0);
  ASSERT_TRUE(WriteResultFile(Path("link"), "new").ok());
  EXPECT_TRUE(IsSymlink(Path("link")));
  EXPECT_EQ(ReadSmallFile(Path("elsewhere/a"), 100).value(), "new");
  EXPECT_EQ(ReadSmallFile(Path("elsewhere/a.tmp"), 100).value(), "another's");
  ASSERT_TRUE(WriteResultFile(Path("b"), "new").ok());
  EXPECT_EQ(ReadSmallFile(Path("b"), 100).value(), "new");
  FileCallLog log(Path(""));
  log.FailFsync(".", EIO);
  EXPECT_FALSE(WriteResultFile(Path("b"), "newer").ok());
  EXPECT_THAT(ListDirectory(Path("")).value(), ElementsAre("b", "elsewhere", "link"));
  EXPECT_THAT(ListDirectory(Path("elsewhere")).value(), ElementsAre("a", "a.tmp"));
}

TEST_F(FileTest, AFullDiskKeepsTheOldContent) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "old").ok());
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limited = before;
  limited.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
  absl::Status status = WriteFileAtomically(Path("a"), std::string(5000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.tmp: cannot write"));
  EXPECT_EQ(ReadSmallFile(Path("a"), 100).value(), "old");
  // The temporary file that is left does not stand in the next write's way.
  EXPECT_TRUE(WriteFileAtomically(Path("a"), "new").ok());
}

TEST_F(FileTest, WhatCannotBeLookedAtIsNotAbsent) {
  ASSERT_TRUE(WriteFileAtomically(Path("file"), "x").ok());
  ASSERT_EQ(symlink("nowhere", Path("link").c_str()), 0);
  EXPECT_EQ(KindOf(Path("file")).value(), PathKind::kFile);
  EXPECT_EQ(KindOf(Path("")).value(), PathKind::kDirectory);
  EXPECT_EQ(KindOf(Path("link")).value(), PathKind::kSymlink);
  EXPECT_EQ(KindOf("/dev/null").value(), PathKind::kOther);
  EXPECT_TRUE(IsThere(Path("file")).value());
  EXPECT_FALSE(IsThere(Path("link")).value());
  for (const char* absent : {"missing", "file/below"}) {
    EXPECT_EQ(KindOf(Path(absent)).value(), PathKind::kNothing);
    EXPECT_FALSE(IsThere(Path(absent)).value());
  }
  FileCallLog log(Path(""));
  for (const int error : {EIO, ESTALE, EACCES}) {
    log.FailStat("file", error);
    for (const absl::Status& status : {KindOf(Path("file")).status(), IsThere(Path("file")).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(std::string(status.message()), ::testing::StartsWith(Path("file") + ": cannot look at it: "));
    }
  }
}

TEST_F(FileTest, DirectoriesAreMadeRenamedAndRemovedOneByOne) {
  EXPECT_EQ(CreateDirectory(Path("a/b")).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(CreateDirectory(Path("a")).ok());
  EXPECT_EQ(CreateDirectory(Path("a")).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(Rename(Path("a"), Path("b")).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("b/x"), "x").ok());
  ASSERT_TRUE(CreateDirectory(Path("a")).ok());
  EXPECT_FALSE(Rename(Path("a"), Path("b")).ok());
  EXPECT_FALSE(RemoveOne(Path("b")).ok());
  EXPECT_TRUE(RemoveOne(Path("a")).ok());
  EXPECT_EQ(RemoveOne(Path("a")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ParentOf("a/b/"), "a");
  EXPECT_EQ(ParentOf("b"), ".");
}

TEST_F(FileTest, ADirectoryIsRenamedToWhatIsNotThere) {
  FileCallLog log(Path(""));
  for (const bool flags : {true, false}) {
    if (!flags) log.RefuseRenameFlags();
    ASSERT_TRUE(CreateDirectory(Path("a")).ok());
    ASSERT_TRUE(RenameDirectory(Path("a"), Path("b")).ok());
    EXPECT_EQ(RenameDirectory(Path("a"), Path("c")).code(), absl::StatusCode::kNotFound);
    ASSERT_TRUE(CreateDirectory(Path("a")).ok());
    EXPECT_EQ(RenameDirectory(Path("a"), Path("b")).code(), absl::StatusCode::kAlreadyExists) << "though it is empty";
    EXPECT_TRUE(IsDirectory(Path("a")));
    ASSERT_TRUE(RemoveOne(Path("a")).ok());
    ASSERT_TRUE(RemoveOne(Path("b")).ok());
  }
}

TEST_F(FileTest, AFileIsRenamedToWhatIsNotThere) {
  FileCallLog log(Path(""));
  for (const bool flags : {true, false}) {
    if (!flags) log.RefuseRenameFlags();
    ASSERT_TRUE(WriteFileAtomically(Path("a"), "one").ok());
    ASSERT_TRUE(RenameFile(Path("a"), Path("b")).ok());
    ASSERT_TRUE(WriteFileAtomically(Path("a"), "two").ok());
    EXPECT_EQ(RenameFile(Path("a"), Path("b")).code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(ReadSmallFile(Path("b"), 100).value(), "one");
    ASSERT_TRUE(RemoveOne(Path("b")).ok());
  }
}

TEST_F(FileTest, ARenameThatWasCarriedOutHasSucceededWhateverIsToldOfIt) {
  FileCallLog log(Path(""));
  log.LoseRename("b", ENOENT);
  ASSERT_TRUE(WriteFileAtomically(Path("b"), "one").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "two").ok());
  EXPECT_TRUE(Rename(Path("a"), Path("b")).ok());
  EXPECT_EQ(ReadSmallFile(Path("b"), 100).value(), "two");
  // "b" exists, but it is not the file that was to be moved there.
  EXPECT_EQ(Rename(Path("a"), Path("b")).code(), absl::StatusCode::kNotFound);
}

TEST_F(FileTest, DurableFileRefusesToOverwrite) {
  std::string text = "hello";
  auto file = DurableFile::Create(Path("x"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Write(std::as_bytes(std::span(text))).ok());
  ASSERT_TRUE((*file)->Sync().ok());
  EXPECT_EQ(DurableFile::Create(Path("x")).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(FileBytes(Path("x")).value(), 5);
}

TEST_F(FileTest, DurableFileGoesOnBehindABeginning) {
  const std::string text = "!";
  ASSERT_TRUE(WriteFileAtomically(Path("x"), "hello").ok());
  {
    auto file = DurableFile::CutOff(Path("x"), 4);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write(std::as_bytes(std::span(text))).ok());
    ASSERT_TRUE((*file)->Sync().ok());
  }
  EXPECT_EQ(ReadSmallFile(Path("x"), 100).value(), "hell!");
  ASSERT_EQ(symlink("x", Path("link").c_str()), 0);
  for (const char* name : {"link", "none"}) {
    EXPECT_EQ(DurableFile::CutOff(Path(name), 0).status().code(), absl::StatusCode::kNotFound) << name;
  }
  EXPECT_EQ(FileBytes(Path("x")).value(), 5);
}

TEST_F(FileTest, ReadPastTheEndIsDataLoss) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "12345").ok());
  std::string into(4, ' ');
  EXPECT_TRUE(ReadAt(Path("a"), 1, std::as_writable_bytes(std::span(into))).ok());
  EXPECT_EQ(into, "2345");
  absl::Status status = ReadAt(Path("a"), 2, std::as_writable_bytes(std::span(into)));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path("a")));
}

TEST_F(FileTest, MapsFilesEmptyOnesToo) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "abc").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("empty"), "").ok());
  EXPECT_EQ(MappedFile::Open(Path("a")).value()->bytes().size(), 3u);
  EXPECT_TRUE(MappedFile::Open(Path("empty")).value()->bytes().empty());
  EXPECT_EQ(MappedFile::Open(Path("missing")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(Path("")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FileTest, APipeIsNoFileAndIsNotWaitedFor) {
  const std::string path = Path("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(path).status().message(), path + ": not a regular file");
  EXPECT_EQ(ReadSmallFile(path, 100).status().message(), path + ": not a regular file");
}

}  // namespace
}  // namespace zerofleet
