// Which paths name a checkpoint on the command line; see checkpoint_path.h.
#include "cli/commands/checkpoint_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/file.h"

namespace zerofleet::cli {
namespace {

using testing::HasSubstr;

class CheckpointPathTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(CreateDirectories(step_dir_).ok()); }
  void TearDown() override { ASSERT_TRUE(RemoveTree(dir_).ok()); }

  const std::string dir_ = JoinPath(testing::TempDir(), "zerofleet_path_" + std::to_string(getpid())),
                    step_dir_ = JoinPath(dir_, "step-00000002"), manifest_ = JoinPath(step_dir_, "manifest.json");
};

TEST_F(CheckpointPathTest, WhatIsNotThereIsSaidToBeAbsent) {
  EXPECT_EQ(ResolveCheckpoint(JoinPath(dir_, "gone")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ResolveCheckpoint(dir_).status().message()), HasSubstr("no committed checkpoint"));
}

// A checkpoint that cannot be read may be the newest, and an older one would be another model.
TEST_F(CheckpointPathTest, WhatCannotBeLookedAtIsAnError) {
  ASSERT_EQ(symlink("manifest.json", manifest_.c_str()), 0);  // stat says ELOOP
  for (const std::string& path : {dir_, step_dir_}) {
    const absl::Status status = ResolveCheckpoint(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(manifest_ + ": cannot look at it"));
  }
}

// A path that cannot be examined, such as one in another user's directory, may exist.
TEST_F(CheckpointPathTest, APathThatCannotBeLookedAtIsNotCalledAbsent) {
  const std::string loop = JoinPath(dir_, "loop");
  ASSERT_EQ(symlink("loop", loop.c_str()), 0);
  const absl::Status status = ResolveCheckpoint(JoinPath(loop, "step-00000002")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("loop/step-00000002: cannot look at it"));
}

TEST_F(CheckpointPathTest, NothingIsWrittenIntoACheckpoint) {
  const std::string link = JoinPath(dir_, "link");
  ASSERT_EQ(symlink(step_dir_.c_str(), link.c_str()), 0);
  for (const std::string& path : {step_dir_, step_dir_ + "/", JoinPath(step_dir_, "new/model.gguf"), link,
                                  JoinPath(link, "new"), JoinPath(dir_, "gone/../step-00000002/a")}) {
    const absl::Status status = CheckOutsideCheckpoint(step_dir_, path);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": is in the checkpoint " + step_dir_));
  }
  for (const std::string& path :
       {dir_, JoinPath(dir_, "step-00000002.gguf"), JoinPath(step_dir_, "../hf"), std::string("hf")}) {
    EXPECT_TRUE(CheckOutsideCheckpoint(step_dir_, path).ok()) << path;
  }
}

}  // namespace
}  // namespace zerofleet::cli
