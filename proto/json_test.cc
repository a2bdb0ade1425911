// The JSON mapping: every field present, numbers exact, and strict reading that names the path.
#include "proto/json.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/json_parse.h"
#include "zerofleet/v1/checkpoint.pb.h"
#include "zerofleet/v1/coordinator.pb.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

std::string Error(std::string_view text, google::protobuf::Message* message) {
  absl::Status status = JsonToProto(text, message);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

v1::RankReport SampleReport() {
  v1::RankReport report;
  report.set_rank(3);
  (*report.mutable_device_memory())["parameters"].set_peak(int64_t{1} << 60);
  (*report.mutable_device_memory())["gradients"].set_current(7);
  report.set_device_fragmentation_ratio(0.1);
  report.add_collectives()->set_operation("reduce_scatter");
  report.add_collectives()->set_seconds(5e-324);
  return report;
}

TEST(ProtoToJsonTest, EveryFieldIsPresentInOrder) {
  EXPECT_EQ(DumpJson(ProtoToJson(v1::DataConfig())),
            R"({"train":[],"train_weights":[],"validation":[],"validation_sets":[],"format":"","tokenizer":"",)"
            R"("loss_on":"","packing":false,"tokenizer_digest":"","samples":0,"validation_samples":0,"on_change":""})");
  v1::StartEvent start;
  EXPECT_EQ(ProtoToJson(start)["resumed_from"], nullptr);
  EXPECT_EQ(ProtoToJson(start)["config"], nullptr);
  start.set_resumed_from(0);
  EXPECT_EQ(ProtoToJson(start)["resumed_from"], 0);
}

TEST(ProtoToJsonTest, MapsAreObjectsAndIntegersNumbers) {
  EXPECT_EQ(DumpJson(ProtoToJson(SampleReport())["device_memory"]),
            R"({"gradients":{"current":7,"peak":0},"parameters":{"current":0,"peak":1152921504606846976}})");
}

TEST(ProtoToJsonTest, UnprintableValuesDoNotThrow) {
  v1::StepEvent step;
  step.set_loss(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(DumpJson(ProtoToJson(step)), HasSubstr(R"("loss":null)"));
  EXPECT_EQ(DumpJson(nlohmann::ordered_json("\xff")), "\"\xEF\xBF\xBD\"");
}

TEST(JsonToProtoTest, ReadsBackWhatWasPrinted) {
  v1::RankReport report = SampleReport(), back;
  ASSERT_TRUE(JsonToProto(DumpJson(ProtoToJson(report)), &back).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(report, back));

  v1::Member member, member_back;
  member.set_transport_address(std::string("\0\xff binary", 9));
  member.set_pid(std::numeric_limits<int64_t>::min());
  ASSERT_TRUE(JsonToProto(DumpJson(ProtoToJson(member)), &member_back).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(member, member_back));

  v1::Event event, event_back;
  event.mutable_step()->set_generation(std::numeric_limits<uint64_t>::max());
  ASSERT_TRUE(JsonToProto(DumpJson(ProtoToJson(event)), &event_back).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(event, event_back));
}

TEST(JsonToProtoTest, DoublesReadBackExactly) {
  for (double value : {0.1, 1.0 / 3, 3e-4, 1e22, 2.2250738585072014e-308, -0.0, 123456789.123456789}) {
    v1::OptimizerConfig config, back;
    config.set_learning_rate(value);
    ASSERT_TRUE(JsonToProto(DumpJson(ProtoToJson(config)), &back).ok());
    EXPECT_EQ(std::signbit(back.learning_rate()), std::signbit(value));
    EXPECT_EQ(back.learning_rate(), value);
  }
}

TEST(JsonToProtoTest, ErrorsNameThePath) {
  v1::CheckpointManifest manifest;
  EXPECT_THAT(Error(R"({"config":{"model":{"layerz":1}}})", &manifest), HasSubstr("config.model.layerz: unknown key"));
  EXPECT_THAT(Error(R"({"tensors":[{},{"shape":[1,"2"]}]})", &manifest), HasSubstr("tensors[1].shape[1]: an integer"));
  EXPECT_THAT(Error(R"({"world_size":2147483648})", &manifest), HasSubstr("world_size: an integer"));
  EXPECT_THAT(Error(R"({"world_size":1.5})", &manifest), HasSubstr("world_size"));
  EXPECT_THAT(Error(R"({"generation":-1})", &manifest), HasSubstr("generation"));
  EXPECT_THAT(Error(R"({"step":9223372036854775808})", &manifest), HasSubstr("step"));
  EXPECT_THAT(Error(R"({"step":null})", &manifest), HasSubstr("step"));
  EXPECT_THAT(Error(R"({"files":{}})", &manifest), HasSubstr("files: an array"));
  EXPECT_THAT(Error(R"([1])", &manifest), HasSubstr("the document"));
  v1::Event event;
  EXPECT_THAT(Error(R"({"step":{},"evaluate":{}})", &event), HasSubstr("'body' is set already"));
  v1::RankReport report;
  EXPECT_THAT(Error(R"({"device_memory":{"x":{"peak":true}}})", &report), HasSubstr("device_memory['x'].peak"));
}

TEST(JsonToProtoTest, AMissingKeyIsNamedByItsPath) {
  v1::CheckpointManifest manifest;
  manifest.add_files()->add_ranges();
  manifest.mutable_random();
  const auto missing = [&](const char* pointer, const std::set<std::string>& except = {}) {
    nlohmann::json json = ProtoToJson(manifest);
    json = json.flatten();
    json.erase(pointer);
    return std::string(CheckEveryKeyPresent(json.unflatten(), *v1::CheckpointManifest::descriptor(), except).message());
  };
  EXPECT_EQ(missing("/none"), "");
  EXPECT_EQ(missing("/step"), "step: missing");
  EXPECT_EQ(missing("/step", {"step"}), "");
  EXPECT_EQ(missing("/files/0/ranges/0/offset"), "files[0].ranges[0].offset: missing");
  EXPECT_EQ(missing("/files/0/ranges/0/offset", {"files"}), "");
}

TEST(ParseJsonTest, RefusesWhatIsAmbiguousOrTooDeep) {
  auto message = [](std::string_view text) { return std::string(ParseJson(text, 4).status().message()); };
  EXPECT_THAT(message(R"({"a":1,"a":2})"), HasSubstr("'a' is duplicated"));
  EXPECT_THAT(message("[[[[[1]]]]]"), HasSubstr("nested deeper than 4"));
  EXPECT_TRUE(ParseJson("[[[[1]]]]", 4).ok());
  EXPECT_EQ(message(std::string_view("{}\0", 3)), "not valid JSON at byte 3");
  EXPECT_EQ(message(std::string_view("{}\0{", 4)), "not valid JSON at byte 3");
  EXPECT_TRUE(ParseJson(R"({"a":{"b":1},"c":"d"})", 4, 3).ok());
  EXPECT_EQ(ParseJson(R"({"a":{"b":1},"c":"d"})", 4, 2).status().message(), "more than 2 keys");
  EXPECT_TRUE(ParseJson(R"([{"a":1},{"a":1}])", 4).ok());
  EXPECT_THAT(message("{} x"), HasSubstr("at byte 4"));
  EXPECT_THAT(message(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(message("1e999"), HasSubstr("out of range"));
  EXPECT_THAT(message("\"\xff\""), HasSubstr("not valid JSON"));
  EXPECT_THAT(message(std::string(1000000, '[')), HasSubstr("nested deeper"));
  for (const char* half : {R"("\ud83d")", R"("\ude00")", R"("\ud83d x")"}) {
    EXPECT_THAT(message(half), HasSubstr("not valid JSON")) << half;
  }
}

TEST(ParseJsonTest, ReadsValuesOfEveryKind) {
  const auto read = [](std::string_view text) { return ParseJson(text).value(); };
  EXPECT_TRUE(read("7").is_number_unsigned());
  EXPECT_EQ(read("7"), 7);
  EXPECT_FALSE(read("-7").is_number_unsigned());
  EXPECT_EQ(read("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(read("18446744073709551615"), UINT64_MAX);
  EXPECT_TRUE(read("18446744073709551616").is_number_float()) << "beyond 64 bits";
  EXPECT_EQ(read("18446744073709551616"), 0x1p64);
  EXPECT_EQ(read("-1.5e3"), -1500.0);
  EXPECT_EQ(read(" [null, true, {\"\":[]}, \"\"]\n").dump(), "[null,true,{\"\":[]},\"\"]");
  EXPECT_EQ(read(R"("\ud83d\ude00\u0000\/")"), std::string("\xF0\x9F\x98\x80\0/", 6));
  const std::string longer(3 << 20, 'x');
  EXPECT_EQ(read("{\"a\":\"" + longer + "\"}")["a"], longer);
}

}  // namespace
}  // namespace zerofleet
