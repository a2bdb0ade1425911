// Export and import are each other's reverse; what does not fit is named.
#include "base/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::HasSubstr;

class HuggingFaceImportTest : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    ASSERT_TRUE(ExportHuggingFace(Save(9, 2), Path("hf")).ok());
  }
  absl::Status Import(const std::string& name) {
    return ImportModel(Path("hf"), Path(name), SmallConfig(), {"1.2.3", 77});
  }
  std::string ImportError(absl::StatusCode code) {
    absl::Status status = Import("imported");
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_FALSE(FileExists(Path("imported")));
    return std::string(status.message());
  }
  void ReplaceInHeader(const std::string& from, const std::string& to) {
    std::string contents = Contents(Path("hf/model.safetensors"));
    size_t at = contents.find(from);
    ASSERT_NE(at, std::string::npos);
    ASSERT_EQ(from.size(), to.size());
    Overwrite(Path("hf/model.safetensors"), contents.replace(at, from.size(), to));
  }
  // Adds a tensor with the values of the first one, the token embedding, moved by `difference`.
  void AddCopyOfEmbedding(const std::string& name, float difference) {
    const std::string path = Path("hf/model.safetensors"), contents = Contents(path);
    SafetensorsHeader header = ReadSafetensorsHeader(path).value();
    std::string data = contents.substr(header.data_begin);
    std::vector<float> copy(header.tensors[0].end / sizeof(float));
    std::copy_n(data.data(), header.tensors[0].end, reinterpret_cast<char*>(copy.data()));
    copy.back() += difference;
    SafetensorsTensor added = header.tensors[0];
    added.name = name;
    header.tensors.push_back(added);
    data.append(reinterpret_cast<const char*>(copy.data()), copy.size() * sizeof(float));
    Overwrite(path, EncodeSafetensorsHeader(header.tensors) + data);
  }
};

TEST_F(HuggingFaceImportTest, TheNameOfAnotherStepIsRefused) {
  const absl::Status status = Import("imported/step-00000100");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("use " + Path("imported/step-00000000")));
  EXPECT_TRUE(Import("imported/step-00000000").ok());
}

TEST_F(HuggingFaceImportTest, RoundTripGivesBackEveryWeightAndZeroMoments) {
  absl::Status status = Import("step-00000000");
  ASSERT_TRUE(status.ok()) << status;
  v1::CheckpointManifest manifest = ReadManifest(Path("step-00000000")).value();
  EXPECT_EQ(manifest.step(), 0);
  EXPECT_EQ(manifest.writer_version(), "1.2.3");
  EXPECT_EQ(manifest.committed_unix_seconds(), 77);
  EXPECT_EQ(manifest.random().seed(), SmallConfig().seed());
  v1::CheckpointManifest original = ReadManifest(StepDirectory(directory_, 9)).value();
  ASSERT_EQ(manifest.tensors_size(), original.tensors_size());
  for (int i = 0; i < manifest.tensors_size(); ++i) {
    EXPECT_TRUE(MessageDifferencer::Equals(manifest.tensors(i), original.tensors(i)));
  }
  std::vector<coordinator::PlacedRange> all = {{0, ManifestElements(manifest), 0}};
  std::vector<float> master(all[0].elements()), first(master.size(), 1.0f), second(master.size(), 1.0f);
  ASSERT_TRUE(LoadRanges(Path("step-00000000"), manifest, all, {master.data(), first.data(), second.data()}).ok());
  EXPECT_EQ(master, State(0, all));
  EXPECT_EQ(first, std::vector<float>(first.size()));
  EXPECT_EQ(second, std::vector<float>(second.size()));
  // A second export equals the first byte for byte.
  ASSERT_TRUE(ExportHuggingFace(Path("step-00000000"), Path("again")).ok());
  EXPECT_EQ(Contents(Path("again/model.safetensors")), Contents(Path("hf/model.safetensors")));
  EXPECT_EQ(Contents(Path("again/config.json")), Contents(Path("hf/config.json")));
}

TEST_F(HuggingFaceImportTest, ATiedHeadIsTakenAnotherRefused) {
  AddCopyOfEmbedding("lm_head.weight", 0);
  EXPECT_TRUE(Import("tied").ok());
  ASSERT_TRUE(RemoveTree(Path("hf")).ok());
  ASSERT_TRUE(ExportHuggingFace(StepDirectory(directory_, 9), Path("hf")).ok());
  AddCopyOfEmbedding("lm_head.weight", 1);
  EXPECT_THAT(ImportError(absl::StatusCode::kInvalidArgument), HasSubstr("lm_head.weight differs"));
}

TEST_F(HuggingFaceImportTest, UnknownMissingAndMisshapenTensorsAreNamed) {
  AddCopyOfEmbedding("transformer.extra", 0);
  EXPECT_THAT(ImportError(absl::StatusCode::kDataLoss), HasSubstr("unknown tensor 'extra'"));
  ReplaceInHeader("transformer.ln_f.bias", "transformer.ln_g.bias");
  EXPECT_THAT(ImportError(absl::StatusCode::kDataLoss), HasSubstr("no tensor 'ln_f.bias'"));
  ReplaceInHeader("\"shape\":[31,15]", "\"shape\":[15,31]");
  EXPECT_THAT(ImportError(absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("'transformer.wte.weight'"), HasSubstr("(15, 31)")));
}

TEST_F(HuggingFaceImportTest, ImpossibleSizesAreRefusedBeforeAnyMemoryIsTaken) {
  std::string config = Contents(Path("hf/config.json"));
  config.replace(config.find("\"vocab_size\": 31"), 16, "\"vocab_size\": 67108864");
  config.replace(config.find("\"n_embd\": 15"), 12, "\"n_embd\": 30000");
  Overwrite(Path("hf/config.json"), config);
  EXPECT_THAT(ImportError(absl::StatusCode::kDataLoss), HasSubstr("makes it (67108864, 30000)"));
  Overwrite(Path("hf/config.json"), "{}");
  EXPECT_THAT(ImportError(absl::StatusCode::kDataLoss), HasSubstr("hf/config.json: vocab_size"));
}

TEST_F(HuggingFaceImportTest, ACommittedCheckpointIsNotReplaced) {
  ASSERT_TRUE(Import("imported").ok());
  EXPECT_EQ(Import("imported").code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace zerofleet::checkpoint
