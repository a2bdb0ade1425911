// Blocks on every instruction set, beside those on the best; what they find is compared with libonig in
// scanners_test.cc.
#include "worker/text/ascii_blocks.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace zerofleet::text {
namespace {

std::vector<uint64_t> PlacesIn(const std::string& text) {
  std::vector<uint64_t> places;
  for (const BlockScanner scan : {Gpt2Block, Cl100kBlock, QwenBlock, O200kBlock, DeepSeekBlock}) {
    for (size_t at = 0; at < text.size(); ++at) places.push_back(scan(text, at));
  }
  return places;
}

TEST(AsciiBlocks, AreTheSameOnEveryInstructionSet) {
  std::mt19937 draw(3);
  for (int i = 0; i < 20; ++i) {
    std::string text;
    while (text.size() < 150) text += static_cast<char>(draw() % (i % 2 == 0 ? 0x80 : 0x100));
    const std::vector<uint64_t> best = PlacesIn(text);
    const int64_t targets = hwy::SupportedTargets() & (HWY_TARGETS);
    for (int64_t rest = targets; rest != 0; rest &= rest - 1) {
      hwy::SetSupportedTargetsForTest(rest & -rest);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      EXPECT_EQ(PlacesIn(text), best) << hwy::TargetName(rest & -rest);
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

TEST(AsciiBlocks, EndBeforeWhatTheyDoNotKnow) {
  EXPECT_EQ(Cl100kBlock("a b\xC3\xA9", 0), uint64_t{1} << 1);
  EXPECT_EQ(Cl100kBlock("a \x01", 0), uint64_t{1} << 1);
  EXPECT_EQ(Cl100kBlock("a  ", 0), uint64_t{1} << 1);
  EXPECT_EQ(Cl100kBlock("ab", 0), 0);
  EXPECT_EQ(Cl100kBlock("\xC3\xA9 a", 0), 0);
  // One word, longer than a block.
  EXPECT_EQ(Cl100kBlock(std::string(100, 'a'), 10), 0);
}

}  // namespace
}  // namespace zerofleet::text
