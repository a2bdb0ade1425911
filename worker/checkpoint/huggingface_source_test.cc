// Single and sharded directories, the three float types, and what is refused.
#include "worker/checkpoint/huggingface_source.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HuggingFaceSourceTest : public CheckpointTest {
 protected:
  // Writes a file of one-dimensional tensors over the bytes given.
  void WriteFile(const std::string& name, const std::vector<SafetensorsTensor>& tensors, const std::string& data) {
    Overwrite(Path(name), EncodeSafetensorsHeader(tensors) + data);
  }
  template <typename T>
  static std::string Bytes(std::vector<T> values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
  }
  std::string OpenError(absl::StatusCode code) {
    absl::Status status = HuggingFaceSource::Open(directory_, (*model::FindModelFamily("gpt2"))->hugging_face).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }
};

TEST_F(HuggingFaceSourceTest, ConvertsTheFloatTypesAndDropsBuffersAndPrefix) {
  WriteFile("model.safetensors",
            {{"transformer.a", "F32", {2}}, {"b", "BF16", {2}}, {"c", "F16", {2}}, {"h.0.attn.bias", "U8", {1}}},
            Bytes<float>({1.5f, -2}) + Bytes<uint16_t>({0x3fc0, 0xc000}) + Bytes<uint16_t>({0x3e00, 0xc000}) + "x");
  auto source = HuggingFaceSource::Open(directory_, (*model::FindModelFamily("gpt2"))->hugging_face);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(source->Names(), ElementsAre("a", "b", "c"));
  for (const char* name : {"a", "b", "c"}) {
    std::vector<float> values(2);
    ASSERT_TRUE(source->Read(name, {2}, values).ok());
    EXPECT_THAT(values, ElementsAre(1.5f, -2.0f)) << name;
  }
}

TEST_F(HuggingFaceSourceTest, RefusesMissingMisshapenAndOtherTypes) {
  WriteFile("model.safetensors", {{"a", "F32", {1, 2}}, {"i", "I64", {1}}}, std::string(16, 'x'));
  auto source = HuggingFaceSource::Open(directory_, (*model::FindModelFamily("gpt2"))->hugging_face).value();
  auto message = [&](const char* name, const std::vector<int64_t>& shape) {
    return std::string(source.Check(name, shape).message());
  };
  EXPECT_THAT(message("b", {1}), HasSubstr("no tensor 'b'"));
  EXPECT_THAT(message("a", {2, 1}), AllOf(HasSubstr("shape (1, 2)"), HasSubstr("makes it (2, 1)")));
  EXPECT_THAT(message("i", {1}), HasSubstr("dtype I64"));
}

TEST_F(HuggingFaceSourceTest, AWeightThatIsNotFiniteIsNamedWithItsPlace) {
  WriteFile("model.safetensors",
            {{"transformer.a", "F32", {2}}, {"b", "BF16", {2}}, {"c", "F16", {2}}, {"d", "F32", {1}}},
            Bytes<float>({1, std::nanf("")}) + Bytes<uint16_t>({0x7f80, 0}) + Bytes<uint16_t>({0, 0xfc00}) +
                Bytes<float>({std::numeric_limits<float>::max()}));
  auto source = HuggingFaceSource::Open(directory_, (*model::FindModelFamily("gpt2"))->hugging_face).value();
  const auto message = [&](const char* name) {
    std::vector<float> values(2);
    const absl::Status status = source.Read(name, {2}, values);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << name;
    return std::string(status.message());
  };
  EXPECT_THAT(message("a"), HasSubstr("model.safetensors: tensor 'transformer.a': element 1 is nan"));
  EXPECT_THAT(message("b"), HasSubstr("tensor 'b': element 0 is inf"));
  EXPECT_THAT(message("c"), HasSubstr("tensor 'c': element 1 is -inf"));
  std::vector<float> largest(1);
  EXPECT_TRUE(source.Read("d", {1}, largest).ok());
}

TEST_F(HuggingFaceSourceTest, ReadsAShardedDirectory) {
  WriteFile("one.safetensors", {{"a", "F32", {1}}}, Bytes<float>({1}));
  WriteFile("two.safetensors", {{"b", "F32", {1}}}, Bytes<float>({2}));
  Overwrite(Path("model.safetensors.index.json"),
            R"({"metadata":{},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_THAT(HuggingFaceSource::Open(directory_, (*model::FindModelFamily("gpt2"))->hugging_face).value().Names(),
              ElementsAre("a", "b"));
}

TEST_F(HuggingFaceSourceTest, BadDirectoriesAreNamed) {
  EXPECT_THAT(OpenError(absl::StatusCode::kNotFound), HasSubstr(directory_));
  Overwrite(Path("model.safetensors.index.json"), R"({"weight_map":{"a":"../x.safetensors"}})");
  EXPECT_THAT(OpenError(absl::StatusCode::kDataLoss), HasSubstr("'../x.safetensors' is not a plain name"));
  Overwrite(Path("model.safetensors.index.json"), R"({"weight_map":{"a":"gone.safetensors"}})");
  EXPECT_THAT(OpenError(absl::StatusCode::kNotFound), HasSubstr("gone.safetensors"));
  WriteFile("model.safetensors", {{"a", "F32", {1}}, {"transformer.a", "F32", {1}}}, std::string(8, 'x'));
  EXPECT_THAT(OpenError(absl::StatusCode::kDataLoss), HasSubstr("'a' is duplicated"));
  WriteFile("model.safetensors", {{"a", "F32", {2}}}, std::string(4, 'x'));
  EXPECT_THAT(OpenError(absl::StatusCode::kDataLoss), HasSubstr("model.safetensors: the tensors hold 8 bytes"));
}

}  // namespace
}  // namespace zerofleet::checkpoint
