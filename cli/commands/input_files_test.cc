// Outputs that would replace what a command reads.
#include "cli/commands/input_files.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

class InputFilesTest : public testing::Test {
 protected:
  InputFilesTest() : root_(absl::StrCat(testing::TempDir(), "/input_files_test_", getpid())) {
    std::filesystem::create_directories(root_ + "/folder");
    for (const char* name : {"run.yaml", "a.txt", "v.txt", "folder/b.txt", "folder/tokenizer.json", "other"}) {
      std::ofstream(At(name)) << name;
    }
    config_.mutable_data()->add_train(At("a.txt"));
    config_.mutable_data()->add_train(At("folder"));
    config_.mutable_data()->add_validation(At("v.txt"));
    config_.mutable_data()->set_tokenizer("bytes");
  }
  ~InputFilesTest() override { std::filesystem::remove_all(root_); }

  std::string At(const std::string& name) const { return absl::StrCat(root_, "/", name); }
  std::string Refusal(const std::string& output) const {
    return std::string(CheckNoInput("--report", output, InputsOfRun(At("run.yaml"), config_)).message());
  }

  const std::string root_;
  v1::Config config_;
};

TEST_F(InputFilesTest, NoneIsWritten) {
  const auto refusal = [&](const char* name, const char* what) {
    return absl::StrCat("--report: ", At(name), " is ", what, "; name another file");
  };
  EXPECT_EQ(Refusal(At("run.yaml")), refusal("run.yaml", "the configuration"));
  EXPECT_EQ(Refusal(At("a.txt")), refusal("a.txt", "read by the run (data.train)"));
  EXPECT_EQ(Refusal(At("folder/b.txt")), refusal("folder/b.txt", "read by the run (data.train)"));
  EXPECT_EQ(Refusal(At("v.txt")), refusal("v.txt", "read by the run (data.validation)"));
  config_.mutable_data()->clear_train();
  config_.mutable_data()->set_tokenizer(At("folder"));
  EXPECT_EQ(Refusal(At("folder/tokenizer.json")), refusal("folder/tokenizer.json", "read by the run (data.tokenizer)"));
}

TEST_F(InputFilesTest, ByAnyNameOrLink) {
  std::filesystem::create_symlink(At("a.txt"), At("symbolic"));
  std::filesystem::create_hard_link(At("a.txt"), At("hard"));
  for (const char* name : {"symbolic", "hard", "folder/../a.txt"}) EXPECT_NE(Refusal(At(name)), "") << name;
}

TEST_F(InputFilesTest, OtherFilesAre) {
  for (const char* name : {"other", "folder/new", "nowhere/new"}) EXPECT_EQ(Refusal(At(name)), "") << name;
  EXPECT_EQ(Refusal(""), "");
  EXPECT_EQ(CheckNoInput("--report", "/dev/null", InputsOfRun("/dev/null", config_)), absl::OkStatus());
}

}  // namespace
}  // namespace zerofleet::cli
