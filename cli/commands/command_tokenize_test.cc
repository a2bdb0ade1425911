// Which files count as text, what is written, what is left behind.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/directory_lock.h"
#include "base/file.h"
#include "cli/commands/command_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenizeTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RemoveTree(directory_).ok());
    ASSERT_TRUE(CreateDirectories(directory_).ok());
    Write("a.txt", "abc");
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }
  std::string Path(const std::string& name) const { return JoinPath(directory_, name); }
  void Write(const std::string& name, const std::string& contents) {
    ASSERT_TRUE(WriteFileAtomically(Path(name), contents).ok());
  }

  // Returns the exit code, and puts the messages into said_. The command runs in a thread of its own, where it may
  // block signals.
  int Tokenize(const std::string& output, const std::vector<std::string>& inputs) {
    std::vector<std::string> words = {"zerofleet", "tokenize", "--tokenizer", "bytes", "--output", Path(output)};
    for (const std::string& input : inputs) words.push_back(Path(input));
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    int exit_code = -1;
    std::thread([&] {
      std::ostringstream said;
      exit_code = RunCommandLine(static_cast<int>(arguments.size()), arguments.data(), {said, said, {}, {}});
      said_ = said.str();
    }).join();
    return exit_code;
  }

  std::string said_;

 private:
  const std::string directory_ = JoinPath(testing::TempDir(), absl::StrCat("zerofleet_tokenize_", getpid()));
};

TEST_F(TokenizeTest, ADirectoryNamesLinksThatLeadNowhere) {
  ASSERT_TRUE(CreateDirectory(Path("d")).ok());
  Write("d/a.txt", "abc");
  EXPECT_EQ(Tokenize("out.bin", {"d"}), 0) << said_;
  ASSERT_EQ(symlink("nope", Path("d/dangling.txt").c_str()), 0);
  EXPECT_EQ(Tokenize("other.bin", {"d"}), 3);
  EXPECT_EQ(said_, absl::StrCat("zerofleet: ", Path("d/dangling.txt"), ": cannot stat: No such file or directory\n"));
  EXPECT_FALSE(FileExists(Path("other.bin")));
}

TEST_F(TokenizeTest, AnOutputIsNamedAsTokensInADirectoryThatIsThere) {
  for (const char* name : {"out.txt", "out.JSONL", "out.bin.gz"}) {
    EXPECT_EQ(Tokenize(name, {"a.txt"}), 2) << name;
    EXPECT_THAT(said_, HasSubstr("token ids are no *.")) << name;
  }
  EXPECT_EQ(Tokenize("none/out.bin", {"a.txt"}), 2);
  EXPECT_THAT(said_, HasSubstr("--output: must be in a directory that is there, got "));
  EXPECT_THAT(ListDirectory(Path("")).value(), ElementsAre("a.txt"));
}

TEST_F(TokenizeTest, AnOutputIsOneRunsAtATime) {
  {
    const auto other = DirectoryLock::Acquire(Path("out.bin.parts"), ".lock");
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(Tokenize("out.bin", {"a.txt"}), 2);
    EXPECT_EQ(said_, absl::StrCat("zerofleet: --output: ", Path("out.bin"),
                                  ": another run is writing it; wait for its end, or name another file\n"));
    EXPECT_TRUE(FileExists(Path("out.bin.parts/.lock")));
  }
  EXPECT_EQ(Tokenize("out.bin", {"a.txt"}), 0) << said_;
  EXPECT_THAT(ListDirectory(Path("")).value(), ElementsAre("a.txt", "out.bin"));
}

TEST_F(TokenizeTest, WhatIsMadeMeanwhileIsNotOverwritten) {
  Write("bad.jsonl", "{}\n");
  EXPECT_EQ(Tokenize("out.bin", {"a.txt", "bad.jsonl"}), 3);
  const std::vector<std::string> kept = ListDirectory(Path("out.bin.parts")).value();
  ASSERT_THAT(kept, ElementsAre(".lock", HasSubstr(".tokens")));
  // This run has checked the output by the time that it waits for the maker of these tokens.
  const std::string tokens = Path("out.bin.parts/" + kept.back());
  ASSERT_TRUE(RemoveOne(tokens).ok());
  const int maker = open(absl::StrCat(tokens, ".lock").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(flock(maker, LOCK_EX), 0);
  int exit_code = -1;
  std::thread run([&] { exit_code = Tokenize("out.bin", {"a.txt"}); });
  absl::SleepFor(absl::Milliseconds(300));
  Write("out.bin", "mine");
  close(maker);
  run.join();
  EXPECT_EQ(exit_code, 2);
  EXPECT_EQ(said_,
            absl::StrCat("zerofleet: --output: ", Path("out.bin"), " is there already and is not overwritten\n"));
  EXPECT_EQ(ReadSmallFile(Path("out.bin"), 100).value(), "mine");
}

TEST_F(TokenizeTest, TokensOfAnEarlierRunBecomeTheOutput) {
  Write("b.txt", "de");
  Write("bad.jsonl", "{}\n");
  EXPECT_EQ(Tokenize("out.bin", {"a.txt", "bad.jsonl"}), 3);
  EXPECT_EQ(Tokenize("out.bin", {"a.txt"}), 0) << said_;
  EXPECT_EQ(ReadSmallFile(Path("out.bin"), 100).value(), std::string("a\0b\0c\0", 6));
  EXPECT_EQ(Tokenize("both.bin", {"a.txt", "b.txt", "a.txt"}), 0) << said_;
  EXPECT_EQ(ReadSmallFile(Path("both.bin"), 100).value(), std::string("a\0b\0c\0d\0e\0a\0b\0c\0", 16));
  EXPECT_THAT(ListDirectory(Path("")).value(), ElementsAre("a.txt", "b.txt", "bad.jsonl", "both.bin", "out.bin"));
}

// As a run leaves it that is killed when its output is complete.
TEST_F(TokenizeTest, PartsOfAnOutputThatIsCompleteAreRemoved) {
  Write("bad.jsonl", "{}\n");
  EXPECT_EQ(Tokenize("out.bin", {"a.txt", "bad.jsonl"}), 3);
  Write("out.bin", "complete");
  const std::string there =
      absl::StrCat("zerofleet: --output: ", Path("out.bin"), " is there already and is not overwritten");
  {
    const auto running = DirectoryLock::Acquire(Path("out.bin.parts"), ".lock");
    ASSERT_TRUE(running.ok()) << running.status();
    EXPECT_EQ(Tokenize("out.bin", {"a.txt"}), 2);
    EXPECT_EQ(said_, there + "\n");
    EXPECT_TRUE(IsDirectory(Path("out.bin.parts")));
  }
  EXPECT_EQ(Tokenize("out.bin", {"a.txt"}), 2);
  EXPECT_EQ(said_, absl::StrCat(there, "; removed ", Path("out.bin.parts"), ", which an earlier run had left\n"));
  EXPECT_THAT(ListDirectory(Path("")).value(), ElementsAre("a.txt", "bad.jsonl", "out.bin"));
  EXPECT_EQ(ReadSmallFile(Path("out.bin"), 100).value(), "complete");
  // A folder of this name that no run has made.
  ASSERT_TRUE(CreateDirectories(Path("out.bin.parts")).ok());
  Write("out.bin.parts/mine", "");
  EXPECT_EQ(Tokenize("out.bin", {"a.txt"}), 2);
  EXPECT_EQ(said_, there + "\n");
  EXPECT_TRUE(FileExists(Path("out.bin.parts/mine")));
}

TEST_F(TokenizeTest, DamagedTokensOfAnEarlierRunAreRefused) {
  Write("bad.jsonl", "{}\n");
  EXPECT_EQ(Tokenize("out.bin", {"a.txt", "bad.jsonl"}), 3);
  const std::string tokens = JoinPath(Path("out.bin.parts"), ListDirectory(Path("out.bin.parts")).value().back());
  std::string contents = ReadSmallFile(tokens, 1000).value();
  contents[0] ^= 1;
  ASSERT_TRUE(WriteFileAtomically(tokens, contents).ok());
  EXPECT_EQ(Tokenize("out.bin", {"a.txt"}), 3);
  EXPECT_THAT(said_, HasSubstr(tokens + ": damaged"));
  EXPECT_EQ(ReadSmallFile(tokens, 1000).value(), contents);
  EXPECT_FALSE(FileExists(Path("out.bin")));
}

TEST_F(TokenizeTest, FilesWithoutTextMakeNoOutput) {
  Write("empty.txt", "");
  Write("blank.jsonl", "\n\n");
  EXPECT_EQ(Tokenize("out.bin", {"empty.txt"}), 3);
  EXPECT_THAT(said_, HasSubstr(absl::StrCat(Path("empty.txt"), ": there is no text in it\n")));
  EXPECT_EQ(Tokenize("out.bin", {"empty.txt", "blank.jsonl"}), 3);
  EXPECT_THAT(said_, HasSubstr("INPUT: there is no text in these files\n"));
  EXPECT_THAT(ListDirectory(Path("")).value(), ElementsAre("a.txt", "blank.jsonl", "empty.txt"));
  EXPECT_EQ(Tokenize("out.bin", {"empty.txt", "a.txt"}), 0) << said_;
}

TEST_F(TokenizeTest, ARunThatMadeNothingLeavesNothing) {
  Write("bad.jsonl", "{}\n");
  EXPECT_EQ(Tokenize("out.bin", {"bad.jsonl"}), 3);
  EXPECT_THAT(ListDirectory(Path("")).value(), ElementsAre("a.txt", "bad.jsonl"));
}

}  // namespace
}  // namespace zerofleet::cli
