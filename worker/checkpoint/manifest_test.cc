// Manifests: printed and read back whole, and refused when any part does not hold.
#include "worker/checkpoint/manifest.h"

#include <functional>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ManifestTest : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    manifest_ = WriteShards(Path("step"), 3, 3);
  }
  // The error after `change`, both directly and through the text.
  std::string ErrorAfter(const std::function<void(v1::CheckpointManifest*)>& change) {
    v1::CheckpointManifest changed = manifest_;
    change(&changed);
    absl::Status status = ValidateManifest(changed);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ParseManifest(ManifestText(changed)).status(), status);
    return std::string(status.message());
  }
  v1::CheckpointManifest manifest_;
};

TEST_F(ManifestTest, TextReadsBack) {
  ASSERT_TRUE(ValidateManifest(manifest_).ok()) << ValidateManifest(manifest_);
  auto back = ParseManifest(ManifestText(manifest_));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(MessageDifferencer::Equals(*back, manifest_));
  EXPECT_EQ(ManifestElements(*back), SmallSpec().parameters());
}

TEST_F(ManifestTest, AFutureVersionIsNamedEvenWithUnknownKeys) {
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_format_version(2); }), AllOf(HasSubstr("2 is of"), HasSubstr("up to 1")));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_format_version(0); }), HasSubstr("format_version: 0"));
  EXPECT_THAT(std::string(ParseManifest(R"({"format_version":7,"new_key":1})").status().message()),
              HasSubstr("7 is of a later version"));
  EXPECT_THAT(std::string(ParseManifest(R"({"format_version":1,"new_key":1})").status().message()),
              HasSubstr("new_key: unknown key"));
}

TEST_F(ManifestTest, TheTensorTableMustBeContiguous) {
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(1)->set_flat_begin(0); }),
              HasSubstr("tensors[1]: flat_begin"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(1)->set_flat_end(0); }), HasSubstr("tensors[1]: flat_end"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(0)->set_shape(0, INT64_MAX); }),
              HasSubstr("impossible shape"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(2)->set_name(m->tensors(1).name()); }), HasSubstr("twice"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_tensors(2)->set_dtype("BF16"); }), HasSubstr("'BF16'"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->clear_tensors(); }), HasSubstr("tensors: empty"));
}

TEST_F(ManifestTest, FilesMustBeOneARankWithPlainNamesAndDigests) {
  for (const char* name : {"../rank", "a/b", "", ".", "..", "manifest.json"}) {
    EXPECT_THAT(ErrorAfter([&](auto* m) { m->mutable_files(0)->set_name(name); }), HasSubstr("no plain file name"));
  }
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(1)->set_name(m->files(0).name()); }), HasSubstr("twice"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(1)->set_rank(0); }), HasSubstr("rank 0"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(1)->set_rank(3); }), HasSubstr("rank 3"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(1)->set_xxh3_128("abc"); }), HasSubstr("xxh3_128"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(1)->set_bytes(-1); }), HasSubstr("bytes -1"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files()->RemoveLast(); }), HasSubstr("2 files of a world of 3"));
}

TEST_F(ManifestTest, RangesMustLieWithinAndCoverEverything) {
  auto range = [](v1::CheckpointManifest* m) { return m->mutable_files(1)->mutable_ranges(0); };
  EXPECT_THAT(ErrorAfter([&](auto* m) { range(m)->set_flat_begin(-1); }), HasSubstr("files[1].ranges[0]"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { range(m)->set_flat_end(INT64_MAX); }), HasSubstr("no range within"));
  EXPECT_THAT(ErrorAfter([&](auto* m) { range(m)->set_offset(1); }), HasSubstr("offset 1, expected 0"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_files(2)->clear_ranges(); }), HasSubstr("is in no source"));
}

TEST_F(ManifestTest, OtherStateMustMakeSense) {
  EXPECT_THAT(ErrorAfter([](auto* m) { m->set_step(-1); }), HasSubstr("step"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->clear_config(); }), HasSubstr("config"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->clear_loss_scale(); }), HasSubstr("loss_scale.scale"));
  EXPECT_THAT(ErrorAfter([](auto* m) { m->mutable_data_cursor()->set_samples_consumed(-1); }),
              HasSubstr("data_cursor"));
}

TEST_F(ManifestTest, ReadingNamesThePath) {
  absl::Status missing = ReadManifest(Path("step")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("not a committed checkpoint"));
  Overwrite(Path("step/manifest.json"), ManifestText(manifest_).substr(0, 200));
  absl::Status torn = ReadManifest(Path("step")).status();
  EXPECT_EQ(torn.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(torn.message()), HasSubstr(Path("step/manifest.json: not valid JSON")));
}

}  // namespace
}  // namespace zerofleet
