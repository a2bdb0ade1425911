// The published sizes of GPT-2 come out of the table.
#include "worker/model/presets.h"

#include <cstdint>
#include <utility>

#include "gtest/gtest.h"
#include "worker/model/spec.h"

namespace zerofleet::model {
namespace {

TEST(Presets, AreFoundByName) {
  ASSERT_NE(FindPreset("gpt2-124m"), nullptr);
  EXPECT_EQ(FindPreset("gpt2-124m")->hidden, 768);
  EXPECT_EQ(FindPreset("gpt2-125m"), nullptr);
}

TEST(Presets, HeadsDivideHiddenEverywhere) {
  for (const ModelPreset& preset : ModelPresets()) EXPECT_EQ(preset.hidden % preset.heads, 0) << preset.name;
}

// Numbers of parameters as the publishers state them.
TEST(Presets, OfTheLlamaFamilyHaveThePublishedParameters) {
  const std::pair<const char*, int64_t> published[] = {
      {"llama2-7b", 6'738'415'616},   {"llama2-13b", 13'015'864'320}, {"llama2-70b", 68'976'648'192},
      {"llama3-8b", 8'030'261'248},   {"llama3-70b", 70'553'706'496}, {"llama3.2-1b", 1'235'814'400},
      {"llama3.2-3b", 3'212'749'824}, {"mistral-7b", 7'241'732'096},  {"tinyllama-1.1b", 1'100'048'384},
      {"smollm2-135m", 134'515'008},  {"smollm2-360m", 361'821'120},  {"smollm2-1.7b", 1'711'376'384},
      {"qwen2-0.5b", 494'032'768},    {"qwen2.5-7b", 7'615'616'512},  {"qwen3-0.6b", 596'049'920},
      {"qwen3-8b", 8'190'735'360},
  };
  for (const auto& [name, parameters] : published) {
    EXPECT_EQ(ModelSpec::Create(FindPreset(name)->Config())->parameters(), parameters) << name;
  }
}

}  // namespace
}  // namespace zerofleet::model
