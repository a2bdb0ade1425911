// The published sizes of GPT-2 come out of the table.
#include "worker/model/presets.h"

#include "gtest/gtest.h"

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

}  // namespace
}  // namespace zerofleet::model
