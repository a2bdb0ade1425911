// What a run is refused for before its first process.
#include "cli/preflight.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "base/file.h"
#include "cli/config.h"
#include "gtest/gtest.h"
#include "worker/device/device.h"
#include "worker/model/spec.h"

namespace zerofleet {
namespace {

std::string Scratch(const std::string& name) {
  return testing::TempDir() + "/preflight_test_" + std::to_string(getpid()) + "_" + name;
}

v1::CheckpointManifest ManifestOf(const v1::ModelConfig& model) {
  v1::CheckpointManifest manifest;
  const ModelSpec spec = ModelSpec::Create(model).value();
  for (const TensorSpec& tensor : spec.tensors()) {
    v1::TensorEntry& entry = *manifest.add_tensors();
    entry.set_name(tensor.name);
    for (const int64_t size : tensor.shape) entry.add_shape(size);
  }
  return manifest;
}

TEST(Preflight, NamesTheFirstTensorThatDiffers) {
  v1::ModelConfig model = DefaultConfig("gpt2-tiny").value().model();
  const v1::CheckpointManifest manifest = ManifestOf(model);
  EXPECT_TRUE(CheckSameTensors(manifest, model, "c").ok());
  model.set_vocab(257);
  const absl::Status wider = CheckSameTensors(manifest, model, "c");
  EXPECT_EQ(wider.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(wider.message().find("[256, 64] stands where the configured model has"), absl::string_view::npos) << wider;
  model.set_vocab(256);
  model.set_layers(3);
  EXPECT_EQ(CheckSameTensors(manifest, model, "c").code(), absl::StatusCode::kDataLoss);
}

TEST(Preflight, RefusesADeviceThatIsNotThere) {
  v1::Config config = DefaultConfig("gpt2-tiny").value();
  config.set_device("cpu");
  EXPECT_TRUE(CheckDevice(config).ok());
  config.set_collectives("nccl");
  EXPECT_EQ(CheckDevice(config).message(),
            "collectives: nccl needs a GPU, and this machine shows none; use ucx or auto");
  if (ResolveDeviceKind("auto").value() != "cpu") GTEST_SKIP() << "SKIPPED: this machine has a GPU";
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
  EXPECT_EQ(CheckDataFiles(config).code(), absl::StatusCode::kNotFound);
}

TEST(Preflight, ResumesOnlyWhatIsThere) {
  v1::Config config = DefaultConfig("gpt2-tiny").value();
  config.mutable_checkpoint()->set_dir(Scratch("none"));
  EXPECT_TRUE(CheckResume(config, "auto").ok());
  EXPECT_TRUE(CheckResume(config, "none").ok());
  EXPECT_EQ(CheckResume(config, "/no/such").message(),
            "--resume: wants auto, none or a checkpoint's step directory, not /no/such");
}

}  // namespace
}  // namespace zerofleet
