// The reasons for refusing a run before its first process starts.
#include "cli/launcher/preflight.h"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/file.h"
#include "cli/config/config.h"
#include "gtest/gtest.h"
#include "worker/device/device.h"

namespace zerofleet::cli {
namespace {

std::string Scratch(const std::string& name) {
  return testing::TempDir() + "/preflight_test_" + std::to_string(getpid()) + "_" + name;
}

TEST(Preflight, RefusesADeviceThatIsNotThere) {
  v1::Config config = DefaultConfig("gpt2-tiny").value();
  config.set_device("cpu");
  EXPECT_TRUE(CheckDevice(config).ok());
  config.set_collectives("nccl");
  EXPECT_EQ(CheckDevice(config).message(), "collectives: nccl needs a GPU, and this machine has none; use ucx or auto");
  if (device::ResolveDeviceKind("auto").value() != "cpu") GTEST_SKIP() << "SKIPPED: this machine has a GPU";
  config.set_collectives("auto");
  config.set_device("cuda");
  EXPECT_EQ(CheckDevice(config).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Preflight, OneRunHoldsADirectory) {
  const std::string dir = Scratch("held");
  {
    const auto first = RunDirectory::Hold(dir);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(RunDirectory::Hold(dir).status().message(),
              "checkpoint.dir: another run holds " + dir + "; use another directory");
  }
  EXPECT_TRUE(RunDirectory::Hold(dir).ok());
  EXPECT_TRUE(RemoveTree(dir).ok());
}

TEST(Preflight, RefusesADirectoryThatCannotBeMade) {
  EXPECT_EQ(RunDirectory::Hold("/proc/none").status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Preflight, RefusesDataThatIsMissing) {
  v1::Config config = DefaultConfig("gpt2-tiny").value();
  config.mutable_data()->add_train("/no/such.txt");
  std::ostringstream progress;
  EXPECT_EQ(CheckDataFiles(config, progress, {}, nullptr).status().code(), absl::StatusCode::kNotFound);
}

TEST(Preflight, CountsTheSamplesOfAnEpoch) {
  const std::string text = Scratch("text");
  std::ofstream(text) << std::string(1001, 'a');
  v1::Config config = DefaultConfig("gpt2-tiny").value();
  config.mutable_model()->set_context(100);
  config.mutable_model()->set_vocab(256);
  config.mutable_data()->add_train(text);
  config.mutable_data()->add_validation("/no/such.txt");  // not part of an epoch
  std::ostringstream progress;
  const absl::StatusOr<int64_t> samples = CountTrainingSamples(config, progress, {}, nullptr);
  ASSERT_TRUE(samples.ok()) << samples.status();
  EXPECT_EQ(*samples, 10);
  EXPECT_TRUE(RemoveTree(text).ok());
  // A dataset in Python is counted in Python.
  config.mutable_model()->set_torch("task:task");
  EXPECT_EQ(CountTrainingSamples(config, progress, {}, nullptr).status().message(),
            "epochs: need the dataset of model.torch, which is not read here; give steps");
  config.mutable_data()->set_samples(7);
  EXPECT_EQ(*CountTrainingSamples(config, progress, {}, nullptr), 7);
}

TEST(Preflight, ResumesOnlyWhatIsThere) {
  v1::Config config = DefaultConfig("gpt2-tiny").value();
  config.mutable_checkpoint()->set_dir(Scratch("none"));
  EXPECT_TRUE(CheckResume(config, "auto").ok());
  EXPECT_TRUE(CheckResume(config, "none").ok());
  EXPECT_EQ(CheckResume(config, "/no/such").status().message(),
            "--resume: must be auto, none or a step directory of a checkpoint, got /no/such");
}

}  // namespace
}  // namespace zerofleet::cli
