// Which buffers share memory, and that no others do.
#include "worker/memory/placement.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::memory {
namespace {

using ::testing::ElementsAre;

using Buffers = std::vector<std::vector<Piece>>;

TEST(Placement, WhatIsAlwaysInUseLiesInTheOrderGiven) {
  const Placement placement = Place({{{64}}, {{192}}, {{128}}});
  EXPECT_THAT(placement.offsets, ElementsAre(0, 64, 256));
  EXPECT_EQ(placement.extent, 384);
}

TEST(Placement, PhasesApartSharePhasesTogetherDoNot) {
  EXPECT_EQ(Place({{{64, 0, 1}}, {{64, 2, 3}}}).extent, 64);
  EXPECT_EQ(Place({{{64, 0, 2}}, {{64, 2, 3}}}).extent, 128);
  EXPECT_EQ(Place({{{64, 1, 1}}, {{64}}}).extent, 128);
}

// The second buffer's pieces come into use from its end, as gradients do; the first one's go out of use from its end,
// as activations do.
TEST(Placement, ABufferFollowsAnotherThatIsLeft) {
  const Placement placement =
      Place({{{128, 0, 4}, {128, 0, 3}, {128, 0, 2}, {128, 0, 1}}, {{64, 4}, {64, 3}, {64, 2}, {64, 1}}});
  EXPECT_THAT(placement.offsets, ElementsAre(0, 512 - 3 * 64));
  EXPECT_EQ(placement.extent, 512 + 64);
}

TEST(Placement, PlacesAreAligned) { EXPECT_THAT(Place({{{100}}, {{64}}}).offsets, ElementsAre(0, 128)); }

TEST(Placement, OfNothingIsNothing) {
  EXPECT_EQ(Place({}).extent, 0);
  EXPECT_EQ(MostInUse({}, {}, 0).bytes, 0);
}

// No byte has two owners in any phase, and no phase uses more than there is.
TEST(Placement, GivesNoByteToTwo) {
  constexpr int kPhases = 6;
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    Buffers buffers(1 + random() % 6);
    int64_t most = 0, sum = 0;
    for (std::vector<Piece>& buffer : buffers) {
      for (size_t pieces = 1 + random() % 5; pieces > 0; --pieces) {
        const int first = static_cast<int>(random() % kPhases);
        const bool ends = random() % 3 != 0;
        buffer.push_back({64 * static_cast<int64_t>(random() % 4), first,
                          ends ? first + static_cast<int>(random() % kPhases) : Piece::kLastPhase});
      }
      sum += PieceBytes(buffer);
    }
    const Placement placement = Place(buffers);
    for (int phase = 0; phase < 2 * kPhases; ++phase) {
      std::vector<int> owners(placement.extent / 64);
      int64_t used = 0;
      for (size_t i = 0; i < buffers.size(); ++i) {
        int64_t at = placement.offsets[i];
        for (const Piece& piece : buffers[i]) {
          const bool in_use = piece.first <= phase && phase <= piece.last;
          for (int64_t byte = at; byte < at + piece.bytes && in_use; byte += 64) EXPECT_EQ(owners[byte / 64]++, 0);
          used += in_use ? piece.bytes : 0;
          at += piece.bytes;
        }
      }
      most = std::max(most, used);
    }
    EXPECT_EQ(MostInUse(buffers, placement.offsets, placement.extent).bytes, most) << round;
    EXPECT_GE(placement.extent, most) << round;
    EXPECT_LE(placement.extent, sum) << round;
  }
}

TEST(MostInUse, FindsTheLargestGap) {
  const Buffers buffers = {{{64, 0, 0}, {128, 1, 1}, {64}}, {{192}}};
  const Use use = MostInUse(buffers, {64, 384}, 640);
  EXPECT_EQ(use.bytes, 128 + 64 + 192);  // phase 1: 128 to 320, 384 to 576
  EXPECT_EQ(use.largest_gap, 128);
}

}  // namespace
}  // namespace zerofleet::memory
