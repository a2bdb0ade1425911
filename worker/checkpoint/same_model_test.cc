// Which models a checkpoint serves, and a shorter context's rows.
#include "worker/checkpoint/same_model.h"

#include "gmock/gmock.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SameModelTest : public CheckpointTest {};

TEST_F(SameModelTest, EveryFieldIsComparedAndNamed) {
  const v1::CheckpointManifest manifest = Manifest(1, 2);
  v1::ModelConfig same = SmallConfig().model();
  same.set_preset("gpt2-tiny");
  EXPECT_TRUE(CheckSameModel(manifest, same, "c").ok());
  const google::protobuf::Descriptor& type = *v1::ModelConfig::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = type.field(i);
    if (field->name() == "preset") continue;
    v1::ModelConfig other = same;
    const google::protobuf::Reflection& reflection = *other.GetReflection();
    switch (field->cpp_type()) {
      case google::protobuf::FieldDescriptor::CPPTYPE_STRING:
        if (field->is_repeated()) {
          reflection.AddString(&other, field, "another");
        } else {
          reflection.SetString(&other, field, "another");
        }
        break;
      case google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE: reflection.SetDouble(&other, field, 7); break;
      case google::protobuf::FieldDescriptor::CPPTYPE_BOOL: reflection.SetBool(&other, field, true); break;
      case google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE: reflection.MutableMessage(&other, field); break;
      default: reflection.SetInt64(&other, field, reflection.GetInt64(other, field) + 1);
    }
    const absl::Status status = CheckSameModel(manifest, other, "c");
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << field->name();
    EXPECT_THAT(std::string(status.message()), HasSubstr("model." + field->name() + " is ")) << status;
  }
  same.set_heads(5);
  EXPECT_EQ(CheckSameModel(manifest, same, "c").message(),
            "checkpoint c is of another model: model.heads is 3 there and 5 in the configuration");
}

// One optimizer's states mean nothing to another; at step 0 there are none yet.
TEST_F(SameModelTest, AnotherOptimizerMayOnlyStartFromAnImport) {
  v1::CheckpointManifest manifest = Manifest(1, 1);
  v1::Config config = SmallConfig();
  EXPECT_TRUE(CheckResumable(manifest, config, "c").ok());
  config.mutable_optimizer()->set_beta1(0.5);
  EXPECT_TRUE(CheckResumable(manifest, config, "c").ok());
  config.mutable_optimizer()->set_name("sgd");
  const absl::Status status = CheckResumable(manifest, config, "c");
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            "checkpoint c is of another optimizer: optimizer.name is adamw there and sgd in the configuration");
  manifest.set_step(0);
  EXPECT_TRUE(CheckResumable(manifest, config, "c").ok());
}

TEST_F(SameModelTest, AnotherTokenizerIsRefused) {
  v1::CheckpointManifest manifest = Manifest(1, 1);
  v1::Config config = SmallConfig();
  config.mutable_data()->set_tokenizer_digest("mine");
  EXPECT_TRUE(CheckResumable(manifest, config, "c").ok()) << "a run on token files that is given its tokenizer";
  manifest.mutable_config()->mutable_data()->set_tokenizer_digest("mine");
  EXPECT_TRUE(CheckResumable(manifest, config, "c").ok());
  manifest.mutable_config()->mutable_data()->set_tokenizer_digest("another");
  const absl::Status status = CheckResumable(manifest, config, "c");
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("another"), HasSubstr("mine")));
}

TEST_F(SameModelTest, AShorterContextTakesTheFirstRows) {
  const std::string step_dir = Save(1, 3);
  const v1::CheckpointManifest manifest = ReadManifest(step_dir).value();
  v1::ModelConfig model = SmallConfig().model();
  model.set_context(4);
  ASSERT_TRUE(CheckSameModel(manifest, model, step_dir).ok());
  const model::ModelSpec spec = model::ModelSpec::Create(model).value();
  for (int world_size : {1, 2, 5}) {
    for (int rank = 0; rank < world_size; ++rank) {
      const std::vector<coordinator::PlacedRange> wanted =
          coordinator::PartitionMap(spec.units(), world_size).StoredRanges(rank);
      std::vector<float> moment(State(1, wanted).size(), -1.0f), expected;
      for (const coordinator::PlacedRange& range : wanted) {
        for (int64_t i = range.flat_begin; i < range.flat_end; ++i) {
          // 31 rows of tokens, then rows of positions, of 15 elements each; with three rows fewer, all that follows
          // moves up.
          expected.push_back(Value(1, i < (31 + 4) * 15 ? i : i + 3 * 15));
        }
      }
      absl::Status read =
          LoadRanges(step_dir, manifest, StoredPlaces(spec, manifest, wanted), {nullptr, moment.data()});
      ASSERT_TRUE(read.ok()) << read;
      EXPECT_EQ(moment, expected) << rank << " of " << world_size;
    }
  }
}

TEST_F(SameModelTest, TheSameContextKeepsEveryRange) {
  const std::vector<coordinator::PlacedRange> wanted =
      coordinator::PartitionMap(SmallSpec().units(), 1).StoredRanges(0);
  EXPECT_EQ(StoredPlaces(SmallSpec(), Manifest(1, 2), wanted),
            (std::vector<coordinator::PlacedRange>{{0, SmallSpec().parameters(), 0}}));
}

}  // namespace
}  // namespace zerofleet::checkpoint
