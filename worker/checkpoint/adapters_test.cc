// Adapters beside a base: loaded with it, merged, exported to PEFT's directory and imported; a wrong base is named.
#include "worker/checkpoint/adapters.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/merged_adapters.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::HasSubstr;

class AdaptersTest : public CheckpointTest {
 protected:
  // A committed checkpoint of `world_size` ranks whose adapters hold State, beside `base_dir`.
  std::string SaveAdapted(const std::string& base_dir, int world_size, const std::string& name) {
    std::string digest;
    EXPECT_TRUE(ReadManifest(base_dir, &digest).ok());
    v1::CheckpointManifest manifest = Manifest(0, world_size);
    v1::Config& config = *manifest.mutable_config();
    config.set_init_from(base_dir);
    config.mutable_model()->mutable_lora()->set_rank(2);
    config.mutable_model()->mutable_lora()->set_alpha(4);
    config.mutable_model()->mutable_lora()->add_targets("attn.c_proj");
    const model::ModelSpec spec = model::ModelSpec::Create(config.model()).value();
    SetTensors(spec, &manifest);
    manifest.set_base_xxh3_128(digest);
    const std::string step_dir = JoinPath(directory_, name);
    const coordinator::PartitionMap map(spec.units(), world_size);
    for (int rank = 0; rank < world_size; ++rank) {
      const auto file = WriteState(PartialDirectory(step_dir, 0), rank, map.StoredRanges(rank));
      EXPECT_TRUE(file.ok()) << file.status();
      *manifest.add_files() = *file;
    }
    const absl::Status committed = CommitCheckpoint(step_dir, manifest);
    EXPECT_TRUE(committed.ok()) << committed;
    return step_dir;
  }
};

TEST_F(AdaptersTest, WhatIsFrozenIsReadFromTheBase) {
  const std::string base = Save(3, 2), adapted = SaveAdapted(base, 3, "adapted");
  const v1::CheckpointManifest manifest = ReadManifest(adapted).value();
  const int64_t elements = ManifestElements(manifest);
  EXPECT_GT(elements, SmallSpec().parameters());
  std::vector<float> weights(elements), moments(elements, -1);
  ASSERT_TRUE(LoadRanges(adapted, manifest, {{0, elements, 0}}, {weights.data(), moments.data()}).ok());
  for (int64_t i = 0; i < elements; ++i) {
    ASSERT_EQ(weights[i], Value(0, i)) << i;
    ASSERT_EQ(moments[i], i < SmallSpec().parameters() ? -1 : Value(1, i)) << i;  // a base's are another run's
  }
}

TEST_F(AdaptersTest, AnotherBaseIsNamed) {
  const std::string base = Save(3, 2), adapted = SaveAdapted(base, 1, "adapted");
  const v1::CheckpointManifest manifest = ReadManifest(adapted).value();
  std::vector<float> weights(ManifestElements(manifest));
  const auto load = [&] {
    return std::string(LoadRanges(adapted, manifest, {{0, ManifestElements(manifest), 0}}, {weights.data()}).message());
  };
  ASSERT_TRUE(RemoveCheckpointFiles(base).ok());
  EXPECT_THAT(load(), HasSubstr(absl::StrCat("its frozen weights are those of ", base)));
  v1::CheckpointManifest other = WriteShards(base, 3, 1);
  other.set_committed_unix_seconds(77);
  ASSERT_TRUE(CommitCheckpoint(base, other).ok());
  EXPECT_THAT(load(), HasSubstr("but the checkpoint there has"));
}

TEST_F(AdaptersTest, AreMergedIntoWhatTheyStandBeside) {
  const std::string base = Save(3, 2), adapted = SaveAdapted(base, 2, "adapted");
  const v1::CheckpointManifest manifest = ReadManifest(adapted).value();
  const MergedAdapters merged = MergedAdapters::Load(adapted, manifest).value();
  const std::string weight = "transformer.h.1.attn.c_proj.weight";
  ASSERT_TRUE(merged.Has(weight));
  EXPECT_FALSE(merged.Has("transformer.h.1.attn.c_attn.weight"));
  const auto begin_of = [&](const std::string& name) {
    for (const v1::TensorEntry& entry : manifest.tensors()) {
      if (entry.name() == name) return entry.flat_begin();
    }
    return int64_t{-1};
  };
  const int64_t a = begin_of("transformer.h.1.attn.c_proj.lora_A.weight"),
                b = begin_of("transformer.h.1.attn.c_proj.lora_B.weight");
  constexpr int64_t kHidden = 15, kFirst = 3 * kHidden + 4;
  std::vector<float> values(20, 1.0f);
  merged.AddTo(weight, kFirst, values);
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t row = (kFirst + i) / kHidden, column = (kFirst + i) % kHidden;
    double sum = 0;
    for (int64_t r = 0; r < 2; ++r) sum += double{Value(0, b + row * 2 + r)} * Value(0, a + r * kHidden + column);
    EXPECT_NEAR(values[i], 1 + 2 * sum, 1e-6 * std::abs(sum)) << i;
  }
}

TEST_F(AdaptersTest, GoToPeftsDirectoryAndBack) {
  const std::string base = Save(3, 2), adapted = SaveAdapted(base, 2, "adapted");
  const std::string peft = JoinPath(directory_, "peft"), again = JoinPath(directory_, "again/step-00000000");
  ASSERT_TRUE(ExportAdapters(adapted, peft).ok());
  EXPECT_EQ(ExportAdapters(adapted, peft).code(), absl::StatusCode::kFailedPrecondition);
  const SafetensorsHeader header = ReadSafetensorsHeader(JoinPath(peft, kAdapterWeightsName)).value();
  EXPECT_EQ(header.tensors.front().name, "base_model.model.transformer.h.0.attn.c_proj.lora_A.weight");
  EXPECT_EQ(header.tensors.front().shape, (std::vector<int64_t>{2, 15}));
  const absl::Status imported = ImportAdapters(peft, base, again, {"test", 5});
  ASSERT_TRUE(imported.ok()) << imported;
  const v1::CheckpointManifest one = ReadManifest(adapted).value(), two = ReadManifest(again).value();
  EXPECT_EQ(two.config().init_from(), base);
  EXPECT_EQ(two.config().model().lora().alpha(), 4);
  std::vector<float> before(ManifestElements(one)), after(ManifestElements(two));
  ASSERT_TRUE(LoadRanges(adapted, one, {{0, ManifestElements(one), 0}}, {before.data()}).ok());
  ASSERT_TRUE(LoadRanges(again, two, {{0, ManifestElements(two), 0}}, {after.data()}).ok());
  EXPECT_EQ(before, after);
  EXPECT_THAT(std::string(ExportAdapters(base, JoinPath(directory_, "none")).message()), HasSubstr("has no adapters"));

  const std::string shard = JoinPath(adapted, ShardFileName(0));
  std::string contents = Contents(shard);
  contents.back() = static_cast<char>(contents.back() ^ 1);
  Overwrite(shard, contents);
  EXPECT_EQ(ExportAdapters(adapted, Path("damaged")).code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(FileExists(Path("damaged")));
}

// PEFT's directory holds no average: a run that starts from the import begins a new average with its weights, not with
// zeros.
TEST_F(AdaptersTest, ComeInWithoutTheAverageOfTheBasesRun) {
  const std::string peft = Path("peft"), base = Path("averaged"), imported = Path("imported/step-00000000");
  ASSERT_TRUE(ExportAdapters(SaveAdapted(Save(3, 1), 1, "adapted"), peft).ok());
  v1::CheckpointManifest averaged = Manifest(3, 1);
  averaged.mutable_config()->mutable_ema()->set_decay(0.5);
  averaged.mutable_config()->mutable_evaluate()->set_weights("ema");
  ASSERT_TRUE(StoredOptimizer(averaged).averages());
  const auto file =
      WriteState(PartialDirectory(base, 0), 0, coordinator::PartitionMap(SmallSpec().units(), 1).StoredRanges(0),
                 StoredOptimizer(averaged));
  ASSERT_TRUE(file.ok()) << file.status();
  *averaged.add_files() = *file;
  ASSERT_TRUE(CommitCheckpoint(base, averaged).ok());
  ASSERT_TRUE(ImportAdapters(peft, base, imported, {"test", 5}).ok());
  const v1::CheckpointManifest manifest = ReadManifest(imported).value();
  EXPECT_FALSE(StoredOptimizer(manifest).averages());
  EXPECT_EQ(manifest.config().evaluate().weights(), "");
}

TEST_F(AdaptersTest, WhatCannotBeTrainedIsRefused) {
  const std::string base = Save(3, 1), peft = JoinPath(directory_, "peft");
  ASSERT_TRUE(CreateDirectories(peft).ok());
  const auto refused = [&](const std::string& config) {
    EXPECT_TRUE(WriteFileAtomically(JoinPath(peft, kAdapterConfigName), config).ok());
    return std::string(ImportAdapters(peft, base, JoinPath(directory_, "to"), {"test", 5}).message());
  };
  EXPECT_THAT(refused(R"({"r": 2, "lora_alpha": 4, "use_dora": true})"), HasSubstr("use_dora is true"));
  EXPECT_THAT(refused(R"({"r": 0, "lora_alpha": 4})"), HasSubstr("r must be 1"));
  EXPECT_THAT(refused(R"({"r": 2, "lora_alpha": 4, "target_modules": ".*"})"), HasSubstr("target_modules"));
  EXPECT_THAT(refused(R"({"r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]})"),
              HasSubstr("\"q_proj\" is no product"));
  EXPECT_THAT(refused(R"({"peft_type": "IA3"})"), HasSubstr("peft_type"));
}

}  // namespace
}  // namespace zerofleet::checkpoint
