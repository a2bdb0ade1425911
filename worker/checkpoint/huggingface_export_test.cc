// Exports have the right names, Conv1D orientation and values, and never overwrite a file.
#include "gmock/gmock.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/checkpoint/huggingface_source.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::HasSubstr;

class HuggingFaceExportTest : public CheckpointTest {};

TEST_F(HuggingFaceExportTest, TensorsCarryTheirNamesShapesAndValues) {
  std::string step_dir = Save(9, 3);
  absl::Status status = ExportHuggingFace(step_dir, Path("out"));
  ASSERT_TRUE(status.ok()) << status;
  auto source = HuggingFaceSource::Open(Path("out"), (*model::FindModelFamily("gpt2"))->hugging_face);
  ASSERT_TRUE(source.ok()) << source.status();
  const model::ModelSpec spec = SmallSpec();
  EXPECT_EQ(source->Names().size(), spec.tensors().size());
  for (const model::TensorSpec& tensor : spec.tensors()) {
    const bool turned = (*model::FindModelFamily("gpt2"))->hugging_face.transposes_products && tensor.projects;
    std::vector<int64_t> shape = tensor.shape;
    if (turned) std::swap(shape[0], shape[1]);
    std::vector<float> values(tensor.elements());
    absl::Status read = source->Read(tensor.name.substr(sizeof("transformer.") - 1), shape, values);
    ASSERT_TRUE(read.ok()) << read;
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      // Element i of the file is (row, column) there, and (column, row) here if `turned`.
      int64_t ours = turned ? i % shape[1] * shape[0] + i / shape[1] : i;
      ASSERT_EQ(values[i], Value(0, tensor.flat_begin + ours)) << tensor.name << " " << i;
    }
  }
}

TEST_F(HuggingFaceExportTest, RefusesToOverwrite) {
  std::string step_dir = Save(9, 1);
  for (const char* name : {"config.json", "model.safetensors", "README.md"}) {
    ASSERT_TRUE(RemoveTree(Path("out")).ok());
    ASSERT_TRUE(CreateDirectories(Path("out")).ok());
    Overwrite(Path("out") + "/" + name, "mine");
    absl::Status status = ExportHuggingFace(step_dir, Path("out"));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    EXPECT_EQ(ListDirectory(Path("out")).value().size(), 1u);
  }
}

TEST_F(HuggingFaceExportTest, ADamagedCheckpointIsNotExported) {
  std::string step_dir = Save(9, 2), shard = JoinPath(step_dir, ShardFileName(1));
  std::string contents = Contents(shard);
  contents.back() = static_cast<char>(contents.back() ^ 1);
  Overwrite(shard, contents);
  EXPECT_EQ(ExportHuggingFace(step_dir, Path("out")).code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(FileExists(Path("out")));
  ASSERT_TRUE(CreateDirectory(Path("out")).ok());
  EXPECT_EQ(ExportHuggingFace(step_dir, Path("out")).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(ListDirectory(Path("out")).value().empty());  // the directory was there before, so it stays
  EXPECT_EQ(ExportHuggingFace(Path("nothing"), Path("out")).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zerofleet::checkpoint
