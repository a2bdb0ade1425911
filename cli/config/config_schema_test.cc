// The schema against the message, the checks, the committed file, the documentation and the examples.
#include "cli/config/config_schema.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "cli/config/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json.h"

namespace zerofleet::cli {
namespace {

using Json = nlohmann::ordered_json;

// The subset of JSON Schema that ConfigSchema uses. The first fault in `value`, by its path; empty if there is none.
std::string Invalid(const Json& schema, const Json& value, const std::string& path = "") {
  if (schema.contains("anyOf")) {
    for (const Json& one : schema["anyOf"]) {
      if (Invalid(one, value, path).empty()) return "";
    }
    return path + ": none of its kinds";
  }
  const std::string type = schema["type"];
  if (type == "object") {
    if (!value.is_object()) return path + ": not an object";
    for (const auto& [name, member] : value.items()) {
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
  if (!schema.contains("enum")) return "";
  for (const Json& choice : schema["enum"]) {
    if (choice == value) return "";
  }
  return path + ": not one of the choices";
}

// Every leaf of the schema, with its own schema.
void Leaves(const Json& schema, const std::string& path, std::map<std::string, Json>& leaves) {
  for (const auto& [name, member] : schema["properties"].items()) {
    const std::string key = path.empty() ? name : absl::StrCat(path, ".", name);
    EXPECT_TRUE(member.contains("description")) << key << ": add it to the table in config_schema.cc";
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
  const std::vector<std::string> wanted = ConfigKeys();
  EXPECT_EQ(keys, std::set<std::string>(wanted.begin(), wanted.end()));
  EXPECT_EQ(leaves["steps"]["type"], "integer");
  EXPECT_EQ(leaves["steps"]["minimum"], 1);
  EXPECT_EQ(leaves["parallel.zero_stage"]["maximum"], 3);
  EXPECT_EQ(leaves["optimizer.beta1"]["type"], "number");
  EXPECT_EQ(leaves["data.train"]["items"]["type"], "string");
  EXPECT_EQ(leaves["precision"]["enum"], Json({"bf16", "fp16", "fp32"}));
  EXPECT_EQ(leaves["device"]["enum"], Json({"auto", "cpu", "cuda"})) << "whatever this build has";
  EXPECT_EQ(leaves["seed"]["minimum"], 0);
}

TEST(ConfigSchema, IsWhatDocsHold) {
  EXPECT_EQ(ReadSmallFile("docs/config.schema.json", 1 << 20).value(), ConfigSchemaText())
      << "write it again: build/zerofleet config-schema > docs/config.schema.json";
}

TEST(ConfigSchema, DocumentationHasEveryKey) {
  const std::string page = ReadSmallFile("docs/configuration.md", 1 << 20).value();
  for (const std::string& key : ConfigKeys()) EXPECT_THAT(page, ::testing::HasSubstr("`" + key + "`"));
}

TEST(ConfigSchema, ExamplesValidate) {
  const Json schema = ConfigSchema();
  const std::vector<std::string> names = ListDirectory("examples").value();
  EXPECT_GE(names.size(), 3u);
  for (const std::string& name : names) {
    if (name.find(".yaml") == std::string::npos) continue;
    // The checkpoint from which that one starts is not there.
    const std::vector<ConfigOverride> instead = {{"--set", "init_from="}, {"--set", "model.preset=gpt2-124m"}};
    const absl::StatusOr<v1::Config> config =
        LoadConfig("examples/" + name, name == "fine_tune.yaml" ? instead : std::vector<ConfigOverride>());
    ASSERT_TRUE(config.ok()) << config.status();
    Json document = ProtoToJson(*config);
    if (document["model"]["preset"].get<std::string>().empty()) document["model"].erase("preset");
    EXPECT_EQ(Invalid(schema, document), "") << name;
  }
}

TEST(ConfigSchema, RefusesWhatTheReaderRefuses) {
  const Json schema = ConfigSchema();
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"model": {"haeds": 4}})")), ".model.haeds: unknown");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"steps": "ten"})")), ".steps: not of type integer");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"steps": 0})")), ".steps: below the minimum");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"precision": "int8"})")), ".precision: not one of the choices");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"data": {"train": "a.txt"}})")), ".data.train: not an array");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"parallel": {"team": 0}})")), ".parallel.team: none of its kinds");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"parallel": {"team": 4}})")), "");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"activation": {"checkpointing": {"every": 4}}})")), "");
  EXPECT_EQ(Invalid(schema, Json::parse(R"({"activation": {"checkpointing": {"every": 0}}})")),
            ".activation.checkpointing: none of its kinds");
}

}  // namespace
}  // namespace zerofleet::cli
