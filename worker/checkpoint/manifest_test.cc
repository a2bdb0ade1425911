// Manifests: printed and read back whole, and refused when any part is wrong.
#include "worker/checkpoint/manifest.h"
#include "coordinator/placement.h"

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/json.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ManifestTest : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    manifest_ = WriteShards(Path("step"), 3, 3);
  }
  // The error after `change`, both directly and through a text whose digest matches.
  std::string ErrorAfter(const std::function<void(v1::CheckpointManifest*)>& change) {
    v1::CheckpointManifest changed = manifest_;
    change(&changed);
    absl::Status status = ValidateManifest(changed);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_EQ(ParseManifest(ManifestText(changed)).status(), status);
    return std::string(status.message());
  }
  // A text of version 1, as the first release wrote it.
  std::string Version1Text() const {
    nlohmann::ordered_json json = ProtoToJson(manifest_);
    json["format_version"] = 1;
    json.erase("team");
    return DumpJson(json, 1) + "\n";
  }
  // A text of version 2: that of version 3 without a team.
  static std::string Version2Text(const v1::CheckpointManifest& manifest) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(ManifestText(manifest));
    json["format_version"] = 2;
    json["manifest_xxh3_128"] = std::string(32, '0');
    json.erase("team");
    std::string text = DumpJson(json, 1) + "\n";
    return text.replace(text.find("3_128\": \"") + 9, 32, Digest128(text));
  }
  static std::string ParseError(const std::string& text) { return std::string(ParseManifest(text).status().message()); }
  v1::CheckpointManifest manifest_;
};

TEST_F(ManifestTest, PartsMustFitTheRanksAndTheVersion) {
  v1::CheckpointManifest manifest = WriteParts(Path("parts"), 1, 3, 3);
  EXPECT_TRUE(ValidateManifest(manifest).ok()) << ValidateManifest(manifest);
  v1::CheckpointManifest older = manifest;
  older.set_format_version(3);
  EXPECT_THAT(std::string(ValidateManifest(older).message()),
              HasSubstr("config.parallel.tensor: 3, expected 1 in version 3"));
  v1::CheckpointManifest uneven = manifest;
  uneven.set_world_size(4);
  *uneven.add_files() = manifest.files(0);
  EXPECT_THAT(std::string(ValidateManifest(uneven).message()), HasSubstr("world_size: 4, expected a multiple of"));
  v1::CheckpointManifest of_another = manifest;  // the whole model's ranges in the file of a part
  *of_another.mutable_files(1)->mutable_ranges() = WriteShards(Path("whole"), 1, 1).files(0).ranges();
  EXPECT_THAT(std::string(ValidateManifest(of_another).message()), HasSubstr("files[1].ranges"));
}

TEST_F(ManifestTest, TextReadsBack) {
  ASSERT_TRUE(ValidateManifest(manifest_).ok()) << ValidateManifest(manifest_);
  auto back = ParseManifest(ManifestText(manifest_));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(MessageDifferencer::Equals(*back, manifest_));
  EXPECT_EQ(ManifestElements(*back), SmallSpec().parameters());
}

TEST_F(ManifestTest, AFutureVersionIsNamedEvenWithUnknownKeys) {
  EXPECT_THAT(ParseError(R"({"format_version":7,"new_key":1})"),
              AllOf(HasSubstr("7 is of a later version"), HasSubstr("up to 4")));
  EXPECT_THAT(ParseError(R"({"format_version":0})"), HasSubstr("format_version: 0"));
  EXPECT_THAT(ParseError(R"({"format_version":18446744073709551615})"), HasSubstr("format_version: -1"));
  EXPECT_THAT(ParseError(R"({"format_version":1,"new_key":1})"), HasSubstr("new_key: unknown key"));
}

TEST_F(ManifestTest, TheTextBeginsWithItsVersionAndDigest) {
  const std::string text = ManifestText(manifest_);
  EXPECT_THAT(text, StartsWith("{\n \"format_version\": 3,\n \"manifest_xxh3_128\": \""));
  EXPECT_EQ(ManifestText(ParseManifest(text).value()), text);
  // The digest is what `xxhsum -H2` prints for the text with the digest's own digits as zeros.
  std::string zeroed = text;
  const size_t digits = text.find("3_128\": \"") + 9;
  zeroed.replace(digits, 32, std::string(32, '0'));
  EXPECT_EQ(text.substr(digits, 32), Digest128(zeroed));
}

TEST_F(ManifestTest, OldVersionsAreStillReadAndNonePosesAsAnother) {
  const std::string one = Version1Text(), two = Version2Text(manifest_), three = ManifestText(manifest_);
  absl::StatusOr<v1::CheckpointManifest> old = ParseManifest(one);
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->format_version(), 1);
  old = ParseManifest(two);
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->format_version(), 2);
  const auto with_version = [](std::string text, char version) {
    return text.replace(text.find("version\": ") + 10, 1, 1, version);
  };
  EXPECT_THAT(ParseError(with_version(two, '1')), HasSubstr("manifest_xxh3_128: unknown key"));
  EXPECT_THAT(ParseError(with_version(one, '2')), HasSubstr("does not begin with its version and its digest"));
  EXPECT_THAT(ParseError(with_version(two, '3')), HasSubstr("damaged"));
  EXPECT_THAT(ParseError(with_version(three, '2')), HasSubstr("damaged"));
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(one);
  json["team"] = 1;
  EXPECT_THAT(ParseError(DumpJson(json)), HasSubstr("team: unknown key"));
}

// A run that wrote a manifest without a team summed all its ranks together, however many; an import has summed nothing.
TEST_F(ManifestTest, TheTeamOfAnOldRunIsAllItsRanks) {
  EXPECT_EQ(ParseManifest(Version2Text(manifest_))->team(), 0);
  manifest_.set_generation(1);
  manifest_.set_team(2);
  EXPECT_EQ(ParseManifest(ManifestText(manifest_))->team(), 2);
  EXPECT_EQ(ParseManifest(Version2Text(manifest_))->team(), coordinator::kMostRanks);
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_team(0); }), HasSubstr("team: 0, expected 1 to 16384"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_team(16385); }), HasSubstr("team: 16385"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_config()->mutable_parallel()->set_team("some"); }),
              HasSubstr("config.parallel.team: must be auto or 1 to 16384, got \"some\""));
}

// Without an accepted seed the fuzzer would never get past the first check.
TEST_F(ManifestTest, TheFuzzersSeedsAreOfVersionOneAndValid) {
  for (const char* name : {"one_rank", "two_ranks"}) {
    const absl::StatusOr<v1::CheckpointManifest> seed =
        ParseManifest(Contents(JoinPath("tests/fuzz/corpus/manifest", name)));
    ASSERT_TRUE(seed.ok()) << name << ": " << seed.status();
    EXPECT_EQ(seed->format_version(), 1);
    const std::string text = ManifestText(*seed);
    EXPECT_EQ(ManifestText(ParseManifest(text).value()), text);
  }
}

// Bytes that have no meaning in JSON count as well: white space, and the order and spelling of equal values.
TEST_F(ManifestTest, AnotherSpellingOfTheSameValuesIsDamage) {
  const std::string text = ManifestText(manifest_);
  EXPECT_THAT(ParseError(text + " "), HasSubstr("damaged: its XXH3-128 is"));
  EXPECT_THAT(ParseError(" " + text), HasSubstr("does not begin"));
  EXPECT_THAT(ParseError(DumpJson(nlohmann::ordered_json::parse(text))), HasSubstr("does not begin"));
  std::string spelled = text;
  spelled.replace(spelled.find("\"step\": 3"), 9, "\"step\": 03");
  EXPECT_FALSE(ParseManifest(spelled).ok());
  spelled = text;
  spelled.replace(spelled.find("\"scale\": 1.0"), 12, "\"scale\": 1.00");
  EXPECT_THAT(ParseError(spelled), HasSubstr("damaged"));
}

TEST_F(ManifestTest, EveryKeyMustBeThereOnce) {
  for (const char* pointer : {"/step", "/loss_scale/skipped_steps", "/files/1/ranges/0/offset", "/tensors/2/dtype",
                              "/data_cursor", "/world_size", "/committed_unix_seconds"}) {
    nlohmann::json json = nlohmann::json::parse(Version1Text());
    const nlohmann::json::json_pointer path(pointer);
    json.at(path.parent_pointer()).erase(path.back());
    EXPECT_THAT(ParseError(json.dump()), HasSubstr("missing")) << pointer;
  }
  // Keys that older releases did not write.
  for (const char* key : {"data", "tokenizer", "environment", "base_xxh3_128", "best", "receipt"}) {
    nlohmann::json json = nlohmann::json::parse(Version1Text());
    json.erase(key);
    EXPECT_TRUE(ParseManifest(json.dump()).ok()) << key << ": " << ParseManifest(json.dump()).status();
  }
  std::string twice = Version1Text();
  twice.replace(twice.find(" \"step\": 3"), 0, " \"step\": 3,\n");
  EXPECT_THAT(ParseError(twice), HasSubstr("'step' is duplicated"));
}

TEST_F(ManifestTest, TheTensorTableMustBeContiguous) {
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(1)->set_flat_begin(0); }),
              HasSubstr("tensors[1]: flat_begin"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(1)->set_flat_end(0); }), HasSubstr("tensors[1]: flat_end"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(0)->set_shape(0, INT64_MAX); }),
              HasSubstr("impossible shape"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(2)->set_name(m->tensors(1).name()); }),
              HasSubstr("duplicated"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(2)->set_dtype("BF16"); }), HasSubstr("'BF16'"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->clear_tensors(); }), HasSubstr("tensors: empty"));
}

TEST_F(ManifestTest, TheTensorTableMustBeTheConfiguredModels) {
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(1)->set_name("x"); }),
              HasSubstr("'x' is not what config.model"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_config()->mutable_model()->set_layers(3); }),
              HasSubstr("tensors: 28 of them, config.model has 40"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_config()->mutable_model()->set_heads(4); }),
              HasSubstr("model.heads"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_config()->mutable_model()->set_heads(5); }),
              HasSubstr("model.kv_heads is 3, which does not divide model.heads 5"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_config()->mutable_model()->set_kv_heads(1); }),
              HasSubstr("config.model.kv_heads: 1, expected 3"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_config()->mutable_model()->set_family("mamba"); }),
              HasSubstr("model.family"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_config()->mutable_model()->set_layers(INT64_MAX); }),
              HasSubstr("model.layers"));
}

TEST_F(ManifestTest, FilesMustBeOnePerRankWithTheirNamesAndDigests) {
  for (const char* name : {"../rank", "a/b", "", ".", "..", "manifest.json", "rank-00001.safetensors"}) {
    EXPECT_THAT(ErrorAfter([&](auto* m) { m->mutable_files(0)->set_name(name); }),
                HasSubstr("expected rank-00000.safetensors"));
  }
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(1)->set_rank(0); }), HasSubstr("rank 0, expected 1"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files()->SwapElements(0, 1); }), HasSubstr("rank 1, expected 0"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(1)->set_xxh3_128("abc"); }), HasSubstr("xxh3_128"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(1)->set_bytes(-1); }), HasSubstr("bytes -1"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(1)->set_bytes(INT64_MAX); }), HasSubstr("its ranges need"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files()->RemoveLast(); }),
              HasSubstr("2 of them, expected one per rank of 3"));
}

TEST_F(ManifestTest, RangesMustBeThoseOfThePartition) {
  auto range = [](v1::CheckpointManifest* m) { return m->mutable_files(1)->mutable_ranges(0); };
  EXPECT_THAT(ErrorAfter([&](auto* m) { range(m)->set_flat_begin(-1); }), HasSubstr("files[1].ranges[0]"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { range(m)->set_flat_end(INT64_MAX); }), HasSubstr("is not a range within"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { range(m)->set_offset(1); }), HasSubstr("files[1].ranges: contiguous range 0"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { range(m)->set_offset(INT64_MIN); }), HasSubstr("is not a range within"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(2)->clear_ranges(); }), HasSubstr("is none, but rank 2 of 3"));
  // Two ranks' ranges of equal length, swapped: every element is covered once, but by the wrong rank.
  EXPECT_THAT(
      ErrorAfter([](auto* m) { m->mutable_files(0)->mutable_ranges()->Swap(m->mutable_files(1)->mutable_ranges()); }),
      HasSubstr("but rank 0 of 3 owns"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(0)->mutable_ranges()->SwapElements(0, 1); }),
              HasSubstr("but rank 0 of 3 owns"));
}

TEST_F(ManifestTest, CountersMustAgree) {
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_step(-1); }), HasSubstr("step: -1"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_step(1001); }), HasSubstr("step: 1001, expected 0 to 1000"));
  const auto samples = [&](int64_t count) {
    return ErrorAfter([&](auto* m) { m->mutable_data_cursor()->set_samples_consumed(count); });
  };
  for (int64_t count : {int64_t{-1}, int64_t{0}, int64_t{2}, int64_t{3'000'000'001}, INT64_MAX}) {
    EXPECT_THAT(samples(count), HasSubstr("data_cursor.samples_consumed")) << count;
  }
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_loss_scale()->set_skipped_steps(4); }),
              HasSubstr("skipped_steps: 4"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_random()->set_seed(6); }), HasSubstr("random.seed: 6, but"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_generation(UINT64_MAX); }),
              HasSubstr("generation: 18446744073709551615"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_generation(uint64_t{1} << 63); }), HasSubstr("generation"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_world_size(0); }), HasSubstr("world_size"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_zero_stage(3); }), HasSubstr("zero_stage: 3, expected 2"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_committed_unix_seconds(-1); }), HasSubstr("committed_unix_seconds"));
}

TEST_F(ManifestTest, TheLossScaleMustFitThePrecision) {
  const auto scale = [](v1::CheckpointManifest* m) { return m->mutable_loss_scale(); };
  EXPECT_THAT(ErrorAfter([&](auto* m) { scale(m)->set_scale(2); }), HasSubstr("loss_scale.scale: 2, expected 1 with"));
  v1::CheckpointManifest not_a_number = manifest_;  // JSON cannot express it
  scale(&not_a_number)->set_scale(std::nan(""));
  EXPECT_THAT(std::string(ValidateManifest(not_a_number).message()), HasSubstr("loss_scale.scale: nan"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { scale(m)->set_clean_steps(1); }), HasSubstr("clean_steps: 1, expected 0 to 0"));
  manifest_.mutable_config()->set_precision("fp16");
  scale(&manifest_)->set_scale(65536);
  scale(&manifest_)->set_skipped_steps(1);
  scale(&manifest_)->set_clean_steps(2);
  ASSERT_TRUE(ValidateManifest(manifest_).ok()) << ValidateManifest(manifest_);
  for (double wrong : {1e30, 0.5, -1.0, 0.0}) {
    EXPECT_THAT(ErrorAfter([&](auto* m) { scale(m)->set_scale(wrong); }), HasSubstr("expected 1 to 1.67772e+07"))
        << wrong;
  }
  EXPECT_THAT(ErrorAfter([&](auto* m) { scale(m)->set_clean_steps(3); }), HasSubstr("clean_steps: 3, expected 0 to 2"));
}

TEST_F(ManifestTest, TheConfigurationMustBeValid) {
  const auto config = [](v1::CheckpointManifest* m) { return m->mutable_config(); };
  EXPECT_THAT(ErrorAfter([](auto* m) { m->clear_config(); }), HasSubstr("config: missing"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->clear_loss_scale(); }), HasSubstr("loss_scale: missing"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { config(m)->set_precision("fp8"); }), HasSubstr("config.precision"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { config(m)->mutable_optimizer()->set_learning_rate(0); }),
              HasSubstr("config.optimizer.learning_rate: must be > 0, such as 3.0e-4, got 0"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { config(m)->mutable_optimizer()->set_beta2(1); }), HasSubstr("beta2"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { config(m)->mutable_schedule()->set_decay("step"); }), HasSubstr("decay"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { config(m)->mutable_batch()->set_global_sequences(0); }),
              HasSubstr("config.batch.global_sequences: 0, expected 1 to 1000000000"));
}

TEST_F(ManifestTest, ReadingNamesThePath) {
  absl::Status missing = ReadManifest(Path("step")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("not a committed checkpoint"));
  ASSERT_TRUE(CreateDirectory(Path("step")).ok());
  Overwrite(Path("step/manifest.json"), ManifestText(manifest_).substr(0, 200));
  absl::Status torn = ReadManifest(Path("step")).status();
  EXPECT_EQ(torn.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(torn.message()), HasSubstr(Path("step/manifest.json: not valid JSON")));
}

// A user's copy may have any name except that of another step.
TEST_F(ManifestTest, ADirectoryNamedForAnotherStepIsDamage) {
  const int64_t step = manifest_.step();
  for (const char* name : {"step-00000003", "step-00000099", "best"}) {
    ASSERT_TRUE(CreateDirectory(Path(name)).ok());
    Overwrite(JoinPath(Path(name), kManifestName), ManifestText(manifest_));
    for (const std::string& path : {Path(name), Path(name) + "/"}) {
      const absl::Status status = ReadManifest(path).status();
      EXPECT_EQ(status.ok(), std::string(name) != "step-00000099") << name << ": " << status;
    }
  }
  EXPECT_EQ(VerifyCheckpoint(Path("step-00000099")).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(ReadManifest(Path("step-00000099")).status().message()),
              HasSubstr(absl::StrCat("is of step ", step, ", but its directory is named for 99")));
}

TEST_F(ManifestTest, AnotherThanWasCommittedIsDamage) {
  ASSERT_TRUE(CreateDirectory(Path("step")).ok());
  Overwrite(Path("step/manifest.json"), ManifestText(manifest_));
  std::string digest;
  ASSERT_TRUE(ReadManifest(Path("step"), &digest).ok());
  EXPECT_EQ(digest, ManifestDigest(ManifestText(manifest_)));
  EXPECT_THAT(ManifestText(manifest_), HasSubstr(digest));  // the text carries the digest
  EXPECT_TRUE(ReadManifest(Path("step"), ManifestIdentity{manifest_.step(), digest}).ok());
  EXPECT_TRUE(ReadManifest(Path("step"), ManifestIdentity{manifest_.step(), ""}).ok());
  const absl::Status other_step = ReadManifest(Path("step"), ManifestIdentity{manifest_.step() + 1, digest}).status();
  EXPECT_EQ(other_step.code(), absl::StatusCode::kDataLoss);
  // Another run's manifest: everything is valid, and at the same step.
  manifest_.set_writer_version("another");
  Overwrite(Path("step/manifest.json"), ManifestText(manifest_));
  const absl::Status other_run = ReadManifest(Path("step"), ManifestIdentity{manifest_.step(), digest}).status();
  EXPECT_EQ(other_run.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(other_run.message()), HasSubstr("another checkpoint was put there since"));
  EXPECT_THAT(std::string(other_run.message()), HasSubstr(digest));
}

}  // namespace
}  // namespace zerofleet::checkpoint
