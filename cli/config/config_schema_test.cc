// The schema against the message, the checks, the committed file, the documentation and the examples.
#include "cli/config/config_schema.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "cli/config/config.h"
#include "cli/config/keys.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json.h"

namespace zerofleet::cli {
namespace {

using Json = nlohmann::ordered_json;

bool IsChoice(const Json& schema, const Json& value) {
  return std::find(schema["enum"].begin(), schema["enum"].end(), value) != schema["enum"].end();
}

// The first fault in `value`, with its path; empty if there is none. Knows the subset of JSON Schema that ConfigSchema
// uses.
std::string Invalid(const Json& schema, const Json& value, const std::string& path = "") {
  if (schema.contains("anyOf")) {
    for (const Json& one : schema["anyOf"]) {
      if (Invalid(one, value, path).empty()) return "";
    }
    return path + ": none of its kinds";
  }
  if (schema.contains("const")) return value == schema["const"] ? "" : path + ": not the constant";
  if (!schema.contains("type")) return IsChoice(schema, value) ? "" : path + ": not one of the choices";
  const std::string type = schema["type"];
  if (type == "object") {
    if (!value.is_object()) return path + ": not an object";
    for (const auto& [name, member] : value.items()) {
      if (schema["additionalProperties"].is_object()) {
        const std::string wrong = Invalid(schema["additionalProperties"], member, absl::StrCat(path, ".", name));
        if (!wrong.empty()) return wrong;
        continue;
      }
      if (!schema["properties"].contains(name)) return absl::StrCat(path, ".", name, ": unknown");
      const std::string wrong = Invalid(schema["properties"][name], member, absl::StrCat(path, ".", name));
      if (!wrong.empty()) return wrong;
    }
    return "";
  }
  if (type == "array") {
    if (!value.is_array()) return path + ": not an array";
    for (const Json& item : value) {
      const std::string wrong = Invalid(schema["items"], item, path + "[]");
      if (!wrong.empty()) return wrong;
    }
    return "";
  }
  const bool fits = type == "string"    ? value.is_string()
                    : type == "boolean" ? value.is_boolean()
                    : type == "integer" ? value.is_number_integer()
                                        : value.is_number();
  if (!fits) return path + ": not of type " + type;
  if (schema.contains("minimum") && value < schema["minimum"]) return path + ": below the minimum";
  if (schema.contains("maximum") && value > schema["maximum"]) return path + ": above the maximum";
  if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) return path + ": below the minimum";
  if (schema.contains("multipleOf") && value.get<int64_t>() % schema["multipleOf"].get<int64_t>() != 0) {
    return path + ": not a multiple";
  }
  if (!schema.contains("enum") || IsChoice(schema, value)) return "";
  return path + ": not one of the choices";
}

// Collects every leaf of the schema, by its path.
void Leaves(const Json& schema, const std::string& path, std::map<std::string, Json>& leaves) {
  for (const auto& [name, member] : schema["properties"].items()) {
    const std::string key = path.empty() ? name : absl::StrCat(path, ".", name);
    EXPECT_TRUE(member.contains("description")) << key;
    if (member.value("type", "") == "object") {
      EXPECT_EQ(member["additionalProperties"], false) << key;
      Leaves(member, key, leaves);
    } else {
      leaves[key] = member;
    }
  }
}

TEST(ConfigSchema, HoldsEveryKeyOfTheMessage) {
  std::map<std::string, Json> leaves;
  Leaves(ConfigSchema(), "", leaves);
  std::set<std::string> keys;
  for (const auto& [key, schema] : leaves) keys.insert(key);
  std::set<std::string> wanted;
  for (const Key& key : Keys()) wanted.insert(key.name);
  EXPECT_EQ(keys, wanted);
  EXPECT_EQ(leaves["steps"]["type"], "integer");
  EXPECT_EQ(leaves["steps"]["minimum"], 1);
  EXPECT_EQ(leaves["parallel.zero_stage"]["maximum"], 3);
  EXPECT_EQ(leaves["optimizer.beta1"]["type"], "number");
  EXPECT_EQ(leaves["data.train"]["items"]["anyOf"][0]["type"], "string");
  EXPECT_EQ(leaves["precision"]["enum"], Json({"bf16", "fp16", "fp32"}));
  EXPECT_EQ(leaves["device"]["enum"], Json({"auto", "cpu", "cuda"})) << "whatever this build has";
  EXPECT_EQ(leaves["seed"]["minimum"], 0);
}

// With ZF_UPDATE_DOCS=1 the file is written again.
TEST(ConfigSchema, IsWhatDocsHold) {
  constexpr char kFile[] = "docs/config.schema.json";
  if (std::getenv("ZF_UPDATE_DOCS") != nullptr) std::ofstream(kFile) << ConfigSchemaText();
  EXPECT_TRUE(ReadSmallFile(kFile, 1 << 20).value() == ConfigSchemaText())
      << "write it again: ZF_UPDATE_DOCS=1 build/cli/config/config_test";
}

TEST(ConfigSchema, ExamplesValidate) {
  const Json schema = ConfigSchema();
  const std::vector<std::string> names = ListDirectory("examples").value();
  EXPECT_GE(names.size(), 3u);
  for (const std::string& name : names) {
    if (name.find(".yaml") == std::string::npos) continue;
    // The checkpoint that fine_tune.yaml starts from does not exist here.
    const std::vector<ConfigOverride> instead = {{"--set", "init_from="}, {"--set", "model.preset=gpt2-124m"}};
    const absl::StatusOr<v1::Config> config =
        LoadConfig("examples/" + name, name == "fine_tune.yaml" ? instead : std::vector<ConfigOverride>());
    ASSERT_TRUE(config.ok()) << config.status();
    Json document = ProtoToJson(*config);
    if (document["model"]["preset"].get<std::string>().empty()) document["model"].erase("preset");
    for (const char* section : {"rope_scaling", "lora"}) {
      if (document["model"][section].is_null()) document["model"].erase(section);
    }
    document["model"].erase("foreign");
    EXPECT_EQ(Invalid(schema, document), "") << name;
  }
}

TEST(ConfigSchema, RefusesWhatTheReaderRefuses) {
  const Json schema = ConfigSchema();
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"model": {"haeds": 4}})")), ".model.haeds: unknown");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"steps": "ten"})")), ".steps: not of type integer");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"steps": 0})")), ".steps: below the minimum");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"buffers": {"bucket_bytes": 65537}})")),
            ".buffers.bucket_bytes: none of its kinds");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"restart": {"form_timeout_seconds": 0}})")),
            ".restart.form_timeout_seconds: below the minimum");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"precision": "int8"})")), ".precision: not one of the choices");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"data": {"train": "a.txt"}})")), ".data.train: not an array");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"data": {"train": ["a", {"path": "b", "weight": 0.5}]}})")), "");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"data": {"train": [{"path": "b", "weight": 0}]}})")),
            ".data.train[]: none of its kinds");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"data": {"validation": {"a": ["b"], "c": "d"}}})")), "");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"data": {"validation": {"a": 3}}})")),
            ".data.validation: none of its kinds");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"parallel": {"team": 0}})")), ".parallel.team: none of its kinds");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"parallel": {"team": 4}})")), "");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"activation": {"checkpointing": {"every": 4}}})")), "");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"activation": {"checkpointing": {"every": 0}}})")),
            ".activation.checkpointing: none of its kinds");
}

}  // namespace
}  // namespace zerofleet::cli
