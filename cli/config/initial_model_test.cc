// init_from: the model comes from a checkpoint, model keys that are given must agree, and a path that is no checkpoint
// is named in the error.
#include "cli/config/initial_model.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/config/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

class InitialModelTest : public checkpoint::CheckpointTest {
 protected:
  absl::StatusOr<v1::Config> Parse(const std::string& init_from, const std::string& more = "") const {
    return ParseConfig(absl::StrCat("init_from: ", init_from, "\ndata: {train: [a], format: tokens_u16}\n",
                                    "checkpoint: {dir: ", Path("own"), "}\n", more),
                       "run.yaml", {});
  }
  std::string Error(const std::string& init_from, const std::string& more = "") const {
    const absl::StatusOr<v1::Config> config = Parse(init_from, more);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << config.status();
    return std::string(config.status().message());
  }
};

TEST_F(InitialModelTest, EveryFieldIsTheCheckpointsUnlessTyped) {
  const absl::StatusOr<v1::Config> config = Parse(Save(9, 2));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model().ShortDebugString(), SmallConfig().model().ShortDebugString());
  const absl::StatusOr<v1::Config> shorter = Parse(Path("step-00000009"), "model: {hidden: 15, context: 5}\n");
  ASSERT_TRUE(shorter.ok()) << shorter.status();
  EXPECT_EQ(shorter->model().context(), 5);
  EXPECT_EQ(shorter->model().vocab(), 31);
  // As `train` writes it for its processes.
  const absl::StatusOr<v1::Config> again = ParseConfig(DumpJson(ProtoToJson(*config)), "config.json", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), config->SerializeAsString());
}

TEST_F(InitialModelTest, WhatIsTypedMustAgree) {
  const std::string from = Save(9, 2);
  EXPECT_EQ(Error(from, "model: {hidden: 30}\n"), absl::StrCat("run.yaml:4: model.hidden: is 30, and 15 in ", from,
                                                               ", from which the run starts; leave it out"));
  EXPECT_EQ(Error(from, "model: {context: 8}\n"), absl::StrCat("run.yaml:4: model.context: is 8, and 7 in ", from,
                                                               ", from which the run starts; leave it out"));
  EXPECT_THAT(Error(from, "model: {preset: gpt2-tiny}\n"), HasSubstr(", from which the run starts"));
}

TEST_F(InitialModelTest, AdaptersAreNoLargerThanWhatTheyAdapt) {
  const std::string from = Save(9, 2);
  EXPECT_TRUE(Parse(from, "model: {lora: {rank: 15}}\n").ok());
  EXPECT_EQ(Error(from, "model: {lora: {rank: 16}}\n"),
            "run.yaml:4: model.lora.rank: must be <= 15, the smaller side of the largest product that has adapters, "
            "got 16");
}

TEST_F(InitialModelTest, TheRunsOwnCheckpointComesFirst) {
  const std::string own = JoinPath(Path("own"), "step-00000020");
  ASSERT_TRUE(CreateDirectories(Path("own")).ok());
  ASSERT_TRUE(checkpoint::CommitCheckpoint(own, WriteShards(own, 20, 2)).ok());
  const absl::StatusOr<v1::Config> config = Parse(Path("gone"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model().layers(), 2);
  EXPECT_THAT(Error(Path("gone"), "model: {layers: 3}\n"), HasSubstr("is 3, and 2 in " + own));
}

TEST_F(InitialModelTest, WhatIsNoStepDirectoryIsNamedWithWhatWouldBe) {
  const std::string from = Save(9, 2), place = "run.yaml:1: init_from: ";
  EXPECT_EQ(Error("gone"), place + "gone: no such directory");
  EXPECT_EQ(Error(directory_),
            absl::StrCat(place, directory_, " is a directory of checkpoints; name one of them, such as ", from));
  ASSERT_TRUE(CreateDirectories(Path("hf")).ok());
  EXPECT_THAT(Error(Path("hf")), HasSubstr("is no committed checkpoint: it has no manifest.json"));
  ASSERT_TRUE(WriteFileAtomically(Path("hf/config.json"), "{}").ok());
  EXPECT_THAT(Error(Path("hf")), HasSubstr("is a Hugging Face directory; run `zerofleet checkpoint import "));
  ASSERT_TRUE(WriteFileAtomically(Path("a.gguf"), "").ok());
  EXPECT_EQ(Error(Path("a.gguf")),
            absl::StrCat(place, Path("a.gguf"), " is a GGUF file; run `zerofleet checkpoint import ", Path("a.gguf"),
                         " imported/step-00000000` and name what that writes"));
  ASSERT_TRUE(WriteFileAtomically(JoinPath(from, "manifest.json"), "{}").ok());
  EXPECT_EQ(Parse(from).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace zerofleet::cli
