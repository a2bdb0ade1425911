// The header: written headers read back, and everything that does not add up is refused.
#include "worker/checkpoint/safetensors.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SafetensorsTest : public CheckpointTest {
 protected:
  // The error for a header text followed by `data_bytes` of data.
  static std::string Error(const std::string& json, int64_t data_bytes) {
    absl::Status status = ParseSafetensorsHeader(json, 8 + static_cast<int64_t>(json.size()) + data_bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << json;
    return std::string(status.message());
  }
};

TEST_F(SafetensorsTest, WhatIsWrittenReadsBack) {
  std::vector<SafetensorsTensor> tensors = {{"z", "F32", {2, 3}}, {"empty", "F32", {0}}, {"a", "BF16", {}}};
  std::string encoded = EncodeSafetensorsHeader(tensors);
  EXPECT_EQ(encoded.size() % 8, 0u);
  Overwrite(Path("x"), encoded + std::string(26, 'd'));
  auto header = ReadSafetensorsHeader(Path("x"));
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->tensors.size(), 3u);
  EXPECT_EQ(header->data_begin, static_cast<int64_t>(encoded.size()));
  EXPECT_EQ(header->tensors[0].name, "z");
  EXPECT_EQ(header->tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header->tensors[1].name, "empty");
  EXPECT_EQ(header->tensors[2].begin, 24);
  EXPECT_EQ(header->tensors[2].end, 26);
}

TEST_F(SafetensorsTest, LengthsAreHeldAgainstTheFile) {
  EXPECT_EQ(ParseSafetensorsLength(std::string("\x05\0\0\0\0\0\0\0", 8), 13).value(), 5);
  for (int64_t file_bytes : {0, 7, 12}) {
    EXPECT_FALSE(ParseSafetensorsLength(std::string("\x05\0\0\0\0\0\0\0", 8), file_bytes).ok()) << file_bytes;
  }
  EXPECT_FALSE(ParseSafetensorsLength(std::string(8, '\xff'), INT64_MAX).ok());
  EXPECT_THAT(std::string(ParseSafetensorsLength(std::string("\1\xe1\xf5\5\0\0\0\0", 8), INT64_MAX).status().message()),
              HasSubstr("at most 100000000"));
  Overwrite(Path("x"), "short");
  EXPECT_THAT(std::string(ReadSafetensorsHeader(Path("x")).status().message()), HasSubstr(Path("x")));
}

TEST_F(SafetensorsTest, OffsetsMustAgreeWithTypeShapeAndData) {
  EXPECT_THAT(Error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
              AllOf(HasSubstr("'a'"), HasSubstr("span 4 bytes"), HasSubstr("need 8")));
  EXPECT_THAT(Error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9), HasSubstr("8 bytes of data"));
  EXPECT_THAT(Error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7), HasSubstr("8 bytes of data"));
  EXPECT_THAT(Error(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3), HasSubstr("gap"));
  EXPECT_THAT(Error(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                    3),
              AllOf(HasSubstr("'b'"), HasSubstr("overlap")));
  EXPECT_THAT(Error(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[3,1]}})", 3), HasSubstr("ascending"));
  EXPECT_THAT(Error(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296,2],"data_offsets":[0,0]}})", 0),
              HasSubstr("more than 63 bits"));
  EXPECT_THAT(Error(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,18446744073709551615]}})", 3),
              HasSubstr("ascending"));
}

TEST_F(SafetensorsTest, MalformedHeadersAreRefused) {
  EXPECT_THAT(Error("[]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(Error("{", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(Error(R"({"a":1})", 0), HasSubstr("must have dtype"));
  EXPECT_THAT(Error(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}})", 4), HasSubstr("nothing else"));
  EXPECT_THAT(Error(R"({"a":{"dtype":"Q4","shape":[],"data_offsets":[0,4]}})", 4), HasSubstr("unknown dtype"));
  EXPECT_THAT(Error(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), HasSubstr("shape"));
  EXPECT_THAT(Error(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4), HasSubstr("shape"));
  EXPECT_THAT(Error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4), HasSubstr("data_offsets"));
  EXPECT_THAT(Error(R"({"a":{},"a":{}})", 0), HasSubstr("is duplicated"));
  EXPECT_THAT(Error(R"({"a":)" + std::string(100000, '['), 0), HasSubstr("nested deeper"));
}

TEST_F(SafetensorsTest, MoreTensorsThanAModelHasAreRefusedBeforeTheyAreRead) {
  // Keys are counted before anything looks at what they hold.
  std::string hundred, json = "{";
  for (int i = 0; i < 99; ++i) absl::StrAppend(&hundred, i == 0 ? "" : ",", "\"", i, "\":0");
  for (int64_t i = 0; i <= kMaxSafetensorsKeys / 100; ++i) absl::StrAppend(&json, "\"t", i, "\":{", hundred, "},");
  // The rest of the text is not parsed.
  EXPECT_THAT(Error(json + "not JSON", 0), HasSubstr(absl::StrCat("header: more than ", kMaxSafetensorsKeys, " keys")));
}

TEST_F(SafetensorsTest, MetadataIsNoTensor) {
  std::string json = R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}   )";
  EXPECT_EQ(ParseSafetensorsHeader(json, 8 + json.size() + 2).value().tensors.size(), 1u);
}

}  // namespace
}  // namespace zerofleet::checkpoint
