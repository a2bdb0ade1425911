// Checkpoints of a PyTorch module: written from safetensors, verified, exported and compared without Python.
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "worker/checkpoint/gguf_export.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/same_model.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/test_support.h"
#include "worker/model/foreign_testing.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::HasSubstr;

class ForeignCheckpointTest : public CheckpointTest {
 protected:
  static v1::Config Config() {
    v1::Config config = SmallConfig();
    *config.mutable_model() = model::ForeignConfig();
    config.mutable_model()->mutable_foreign()->set_config_json("{\"model_type\": \"mine\"}\n");
    config.mutable_model()->mutable_foreign()->add_buffers("steps");
    return config;
  }
  static v1::Config BufferedConfig() {
    v1::Config config = Config();
    *config.mutable_model() = model::BufferedForeignConfig();
    for (const char* const name : {"steps", "means"}) config.mutable_model()->mutable_foreign()->add_buffers(name);
    return config;
  }
  // Writes 0, 1, 2, ... as tensors of these names and shapes.
  void WriteWeights(const std::vector<SafetensorsTensor>& tensors) {
    std::string data;
    float next = 0;
    for (const SafetensorsTensor& tensor : tensors) {
      int64_t count = SafetensorsBytes("F32", tensor.shape) / static_cast<int64_t>(sizeof(float));
      for (; count > 0; --count, ++next) data.append(reinterpret_cast<const char*>(&next), sizeof next);
    }
    ASSERT_TRUE(CreateDirectories(Path("weights")).ok());
    Overwrite(Path("weights/model.safetensors"), EncodeSafetensorsHeader(tensors) + data);
  }
  absl::Status Import() { return ImportModel(Path("weights"), Path("step-00000000"), Config(), {"1.2.3", 77}); }

  const std::vector<SafetensorsTensor> module_ = {
      {"scale", "F32", {5}}, {"first.weight", "F32", {4, 3}}, {"second.bias", "F32", {7}}, {"steps", "F32", {1}}};
};

TEST_F(ForeignCheckpointTest, IsWrittenVerifiedAndExported) {
  WriteWeights(module_);
  const absl::Status imported = Import();
  ASSERT_TRUE(imported.ok()) << imported;
  EXPECT_TRUE(VerifyCheckpoint(Path("step-00000000")).ok());
  const v1::CheckpointManifest manifest = ReadManifest(Path("step-00000000")).value();
  ASSERT_EQ(manifest.tensors_size(), 3);  // buffers are not part of the state
  EXPECT_EQ(manifest.tensors(1).name(), "first.weight");
  const absl::Status exported = ExportHuggingFace(Path("step-00000000"), Path("hf"));
  ASSERT_TRUE(exported.ok()) << exported;
  EXPECT_EQ(Contents(Path("hf/config.json")), "{\"model_type\": \"mine\"}\n");
  const SafetensorsHeader header = ReadSafetensorsHeader(Path("hf/model.safetensors")).value();
  EXPECT_EQ(header.tensors[1].name, "first.weight");
  EXPECT_EQ(header.tensors[1].shape, (std::vector<int64_t>{4, 3}));  // unchanged: nothing is transposed
  const std::string contents = Contents(Path("hf/model.safetensors"));
  const float* const values = reinterpret_cast<const float*>(contents.data() + header.data_begin);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(values[i], static_cast<float>(i));
}

// Elements of 8 bytes come first in the export, and then those of 4, so that each is aligned.
TEST_F(ForeignCheckpointTest, BuffersAreExportedInTheirOwnTypes) {
  const std::vector<SafetensorsTensor> stored = {
      module_[0], module_[1], module_[2], {"steps", "F32", {8}}, {"means", "F32", {12}}};
  WriteWeights(stored);  // the bytes of the buffers are 24, 25, 26, ...
  v1::Config config = BufferedConfig();
  const absl::Status imported = ImportModel(Path("weights"), Path("step-00000000"), config, {"1.2.3", 77});
  ASSERT_TRUE(imported.ok()) << imported;
  ASSERT_TRUE(ExportHuggingFace(Path("step-00000000"), Path("hf"), device::DType::kBF16).ok());
  const SafetensorsHeader header = ReadSafetensorsHeader(Path("hf/model.safetensors")).value();
  ASSERT_EQ(header.tensors.size(), 5u);
  EXPECT_EQ(header.tensors[0].name + header.tensors[0].dtype, "stepsI64");
  EXPECT_TRUE(header.tensors[0].shape.empty());
  EXPECT_EQ(header.tensors[1].name + header.tensors[1].dtype, "meansF32");
  EXPECT_EQ(header.tensors[1].shape, std::vector<int64_t>{3});
  EXPECT_EQ(header.tensors[2].name + header.tensors[2].dtype, "scaleBF16");
  const std::string contents = Contents(Path("hf/model.safetensors"));
  for (int64_t i = 0; i < model::TestBuffers::kBytes; ++i) EXPECT_EQ(contents[header.data_begin + i], 24 + i);
}

TEST_F(ForeignCheckpointTest, BuffersThatPyTorchDoesNotStoreAreNotExported) {
  WriteWeights({module_[0], module_[1], module_[2], {"steps", "F32", {8}}, {"means", "F32", {12}}});
  for (const char* const left : {"steps", "means"}) {
    v1::Config config = BufferedConfig();
    config.mutable_model()->mutable_foreign()->clear_buffers();
    config.mutable_model()->mutable_foreign()->add_buffers(left);
    const std::string step_dir = Path(absl::StrCat(left, "/step-00000000")), out = Path(absl::StrCat("hf-", left));
    ASSERT_TRUE(CreateDirectories(Path(left)).ok());
    ASSERT_TRUE(ImportModel(Path("weights"), step_dir, config, {"1.2.3", 77}).ok());
    ASSERT_TRUE(ExportHuggingFace(step_dir, out).ok());
    const SafetensorsHeader header = ReadSafetensorsHeader(JoinPath(out, "model.safetensors")).value();
    ASSERT_EQ(header.tensors.size(), 4u);
    const std::string contents = Contents(JoinPath(out, "model.safetensors"));
    for (const SafetensorsTensor& tensor : header.tensors) {
      if (tensor.name != left) continue;
      const int first = tensor.name == "steps" ? 24 : 32;
      for (int64_t i = 0; i < tensor.end - tensor.begin; ++i) {
        EXPECT_EQ(contents[static_cast<size_t>(header.data_begin + tensor.begin + i)], first + i) << left;
      }
    }
  }
}

TEST_F(ForeignCheckpointTest, AByteThatIsNoneIsNotExported) {
  for (const float wrong : {-1.0f, 0.5f, 256.0f}) {
    std::vector<SafetensorsTensor> stored = module_;
    stored[3] = {"steps", "F32", {8}};
    stored.push_back({"means", "F32", {12}});
    WriteWeights(stored);
    std::string file = Contents(Path("weights/model.safetensors"));
    std::memcpy(file.data() + file.size() - sizeof wrong, &wrong, sizeof wrong);
    Overwrite(Path("weights/model.safetensors"), file);
    const v1::Config config = BufferedConfig();
    const std::string step_dir = Path(absl::StrCat("of", wrong, "/step-00000000"));
    ASSERT_TRUE(CreateDirectories(Path(absl::StrCat("of", wrong))).ok());
    ASSERT_TRUE(ImportModel(Path("weights"), step_dir, config, {"1.2.3", 77}).ok());
    const std::string out = Path(absl::StrCat("out", wrong));
    EXPECT_EQ(std::string(ExportHuggingFace(step_dir, out).message()),
              absl::StrCat("buffer 'means': byte 11 is ", wrong));
    EXPECT_FALSE(IsThere(out).value());
  }
}

TEST_F(ForeignCheckpointTest, NamesWhatIsMissingOrUnknown) {
  WriteWeights({module_[0], module_[1]});
  EXPECT_THAT(std::string(Import().message()), HasSubstr("no tensor 'second.bias'"));
  std::vector<SafetensorsTensor> more = module_;
  more.push_back({"third", "F32", {2}});
  WriteWeights(more);
  EXPECT_THAT(std::string(Import().message()), HasSubstr("tensor 'third' is none of the module's"));
}

TEST_F(ForeignCheckpointTest, IsComparedByItsTensors) {
  WriteWeights(module_);
  ASSERT_TRUE(Import().ok());
  const v1::CheckpointManifest manifest = ReadManifest(Path("step-00000000")).value();
  v1::ModelConfig same = Config().model();
  same.set_torch("other:name");
  same.mutable_foreign()->mutable_units(0)->mutable_tensors(0)->set_decay(true);
  same.mutable_foreign()->set_saved_bytes(17);
  EXPECT_TRUE(CheckSameModel(manifest, same, "here").ok());
  v1::ModelConfig wider = same;
  wider.mutable_foreign()->mutable_units(1)->mutable_tensors(0)->set_shape(0, 8);
  EXPECT_EQ(
      std::string(CheckSameModel(manifest, wider, "here").message()),
      "checkpoint here is of another module: tensor first.weight is [4, 3] in unit first there and [8, 3] in unit "
      "first here");
  v1::ModelConfig fewer = same;
  fewer.mutable_foreign()->mutable_units()->RemoveLast();
  EXPECT_THAT(std::string(CheckSameModel(manifest, fewer, "here").message()), HasSubstr("3 tensors there and 2 here"));
  EXPECT_THAT(std::string(CheckSameModel(manifest, SmallConfig().model(), "here").message()),
              HasSubstr("another model"));
}

// A checkpoint that a run begins with has all weights, whatever the run trains.
TEST_F(ForeignCheckpointTest, OfWeightsNothingIsFrozen) {
  WriteWeights(module_);
  v1::Config config = Config();
  config.mutable_model()->mutable_foreign()->mutable_units(1)->set_frozen(true);
  const absl::Status imported = ImportModel(Path("weights"), Path("step-00000000"), config, {"1.2.3", 77});
  ASSERT_TRUE(imported.ok()) << imported;
  const v1::CheckpointManifest manifest = ReadManifest(Path("step-00000000")).value();
  EXPECT_FALSE(manifest.config().model().foreign().units(1).frozen());
  EXPECT_TRUE(CheckBaseModel(manifest, config.model(), "here").ok());
  EXPECT_THAT(std::string(CheckSameModel(manifest, config.model(), "here").message()), HasSubstr("frozen, here"));
}

TEST_F(ForeignCheckpointTest, HasNoGguf) {
  WriteWeights(module_);
  ASSERT_TRUE(Import().ok());
  EXPECT_THAT(std::string(ExportGguf(Path("step-00000000"), Path("out.gguf"), device::DType::kF32).message()),
              HasSubstr("its model is a PyTorch module"));
}

}  // namespace
}  // namespace zerofleet::checkpoint
