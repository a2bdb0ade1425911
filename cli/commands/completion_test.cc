// The completion scripts, run by their shells.
#include "cli/commands/completion.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "cli/commands/command_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ScriptFor(const char* shell) {
  const char* argv[] = {"zerofleet", "completion", shell};
  std::ostringstream out, err;
  EXPECT_EQ(RunCommandLine(3, argv, {out, err, {}, {}}), 0) << err.str();
  return out.str();
}

std::string OutputOf(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, count);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return output;
}

class InBash : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = absl::StrCat(testing::TempDir(), "/completion_", getpid(), ".bash");
    ASSERT_TRUE(WriteFileAtomically(path_, ScriptFor("bash")).ok());
  }
  void TearDown() override { unlink(path_.c_str()); }

  // What bash offers for these words, the last of which is being typed; one per line.
  std::string Offered(const std::string& words) {
    return OutputOf(
        absl::StrCat("bash --norc -c 'compopt() { :; }; source ", path_, "; COMP_WORDS=(", words,
                     "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _zerofleet; printf \"%s\\n\" \"${COMPREPLY[@]}\"'"));
  }

  std::string path_;
};

TEST_F(InBash, OffersCommandsOptionsAndValues) {
  EXPECT_THAT(Offered("zerofleet \"\""),
              AllOf(HasSubstr("train\n"), HasSubstr("bench\n"), HasSubstr("config-schema\n")));
  EXPECT_EQ(Offered("zerofleet tr"), "train\n");
  EXPECT_THAT(Offered("zerofleet train --"),
              AllOf(HasSubstr("--workers\n"), HasSubstr("--report\n"), Not(HasSubstr("--json"))));
  EXPECT_EQ(Offered("zerofleet train --device c"), "cpu\ncuda\n");
  EXPECT_EQ(Offered("zerofleet train --resume n"), "none\n");
  EXPECT_EQ(Offered("zerofleet train --workers \"\""), "\n") << "a number: nothing to offer";
  EXPECT_EQ(Offered("zerofleet train a.yaml --set optimizer.learning"), "optimizer.learning_rate=\n");
  EXPECT_EQ(Offered("zerofleet plan --preset gpt2-15"), "gpt2-1558m\n");
  EXPECT_EQ(Offered("zerofleet checkpoint ver"), "verify\n");
  EXPECT_THAT(Offered("zerofleet bench step --"), HasSubstr("--warm-up\n"));
  EXPECT_THAT(Offered("zerofleet train examples/t"), HasSubstr("examples/tiny.yaml\n"));
  EXPECT_THAT(Offered("zerofleet bench checkpoint --dir ex"), HasSubstr("examples\n"));
}

TEST_F(InBash, OffersValuesHoweverTheyAreWritten) {
  EXPECT_EQ(Offered("zerofleet plan --gpu a100"), "a100\na100-40\n");
  EXPECT_EQ(Offered("zerofleet checkpoint export --dtype \"\""), "fp32\nbf16\nfp16\n");
  EXPECT_EQ(Offered("zerofleet sweep --grid optimizer.learning"), "optimizer.learning_rate=\n");
  EXPECT_EQ(Offered("zerofleet help tr"), "train\n");
  EXPECT_EQ(Offered("zerofleet help checkpoint ver"), "verify\n");
  EXPECT_EQ(Offered("zerofleet help --m"), "--man\n");
}

TEST(ZshCompletion, IsWellFormed) {
  const std::string script = ScriptFor("zsh");
  EXPECT_EQ(script.rfind("#compdef zerofleet\n", 0), 0u);
  EXPECT_THAT(script, AllOf(HasSubstr("('zerofleet train --device') compadd -- auto cpu cuda; return ;;"),
                            HasSubstr("'train:Train on this machine"), HasSubstr("optimizer.learning_rate=")));
  if (system("command -v zsh >/dev/null") != 0) GTEST_SKIP() << "SKIPPED: no zsh to read it";
  const std::string path = absl::StrCat(testing::TempDir(), "/completion_", getpid(), ".zsh");
  ASSERT_TRUE(WriteFileAtomically(path, script).ok());
  EXPECT_EQ(OutputOf(absl::StrCat("zsh -n ", path, " 2>&1")), "");
  unlink(path.c_str());
}

TEST(ZshCompletion, OffersTheKeysOfSet) {
  if (system("command -v zsh >/dev/null") != 0) GTEST_SKIP() << "SKIPPED: no zsh to ask";
  const std::string folder = absl::StrCat(testing::TempDir(), "/completion_zsh_", getpid());
  ASSERT_TRUE(CreateDirectories(folder).ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/_zerofleet", ScriptFor("zsh")).ok());
  // A completion function passes what it offers to compadd, after "--".
  const std::string script =
      "compadd() { print -rl -- ${@[$@[(i)--]+1,-1]}; }; words=(zerofleet train --set restart.f); CURRENT=4; ";
  const std::string offered = OutputOf(absl::StrCat("zsh -f -c '", script, "() { source ", folder, "/_zerofleet; }'"));
  EXPECT_THAT(offered, AllOf(HasSubstr("restart.form_timeout_seconds=\n"), HasSubstr("steps=\n")));
  EXPECT_TRUE(RemoveTree(folder).ok());
}

class InFish : public InBash {
 protected:
  void SetUp() override {
    if (system("command -v fish >/dev/null") != 0) GTEST_SKIP() << "SKIPPED: no fish to ask";
    path_ = absl::StrCat(testing::TempDir(), "/completion_", getpid(), ".fish");
    ASSERT_TRUE(WriteFileAtomically(path_, ScriptFor("fish")).ok());
  }
  // What fish offers for this line, without descriptions; one per line.
  std::string Offered(const std::string& line) {
    return OutputOf(absl::StrCat("HOME=", testing::TempDir(), " fish --no-config -c 'source ", path_,
                                 "; complete -C \"", line, "\"' | cut -f1"));
  }
};

TEST_F(InFish, OffersCommandsOptionsAndValues) {
  EXPECT_THAT(Offered("zerofleet "), AllOf(HasSubstr("train\n"), HasSubstr("bench\n")));
  EXPECT_EQ(Offered("zerofleet tr"), "train\n");
  EXPECT_THAT(Offered("zerofleet train --"), AllOf(HasSubstr("--workers\n"), Not(HasSubstr("--json"))));
  EXPECT_EQ(Offered("zerofleet train --device cp"), "cpu\n");
  EXPECT_EQ(Offered("zerofleet train a.yaml --set optimizer.learning"), "optimizer.learning_rate=\n");
  EXPECT_THAT(Offered("zerofleet train --set "), AllOf(HasSubstr("steps=\n"), Not(HasSubstr("examples"))));
  EXPECT_EQ(Offered("zerofleet checkpoint ver"), "verify\n");
  EXPECT_EQ(Offered("zerofleet help checkpoint ver"), "verify\n");
  EXPECT_THAT(Offered("zerofleet train examples/t"), HasSubstr("examples/tiny.yaml\n"));
}

}  // namespace
}  // namespace zerofleet::cli
