// A receipt keeps the newest steps, its chain covers all, and any changed bit shows.
#include "worker/checkpoint/receipt.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::checkpoint {
namespace {

using ::testing::HasSubstr;

v1::Receipt ReceiptOf(int64_t steps) {
  v1::Receipt receipt;
  for (int64_t step = 1; step <= steps; ++step) {
    AddToReceipt(NumbersOf(step, 1.0 / static_cast<double>(step), static_cast<double>(step)), &receipt);
  }
  return receipt;
}

TEST(ReceiptTest, KeepsTheNewestSteps) {
  const v1::Receipt few = ReceiptOf(3);
  EXPECT_EQ(few.steps_size(), 3);
  EXPECT_EQ(few.steps(2).loss_bits(), 0x3fd5555555555555u);
  EXPECT_EQ(WhatIsWrongWithReceipt(few, 3), "");
  const v1::Receipt many = ReceiptOf(kMostReceiptSteps + 2);
  EXPECT_EQ(many.steps_size(), kMostReceiptSteps);
  EXPECT_EQ(many.steps(0).step(), 3);
  EXPECT_EQ(WhatIsWrongWithReceipt(many, kMostReceiptSteps + 2), "");
  EXPECT_EQ(WhatIsWrongWithReceipt(v1::Receipt(), 7), "");
  // A step that overflowed has no finite numbers.
  v1::Receipt infinite;
  AddToReceipt(NumbersOf(1, NAN, std::numeric_limits<double>::infinity()), &infinite);
  EXPECT_EQ(WhatIsWrongWithReceipt(infinite, 1), "");
}

TEST(ReceiptTest, AnyBitCounts) {
  const v1::Receipt good = ReceiptOf(5);
  for (int step = 0; step < 5; ++step) {
    for (int bit = 0; bit < 64; ++bit) {
      v1::Receipt bad = good;
      bad.mutable_steps(step)->set_loss_bits(bad.steps(step).loss_bits() ^ uint64_t{1} << bit);
      EXPECT_EQ(WhatIsWrongWithReceipt(bad, 5), "has steps that do not make its chain");
      bad = good;
      bad.mutable_steps(step)->set_grad_norm_bits(bad.steps(step).grad_norm_bits() ^ uint64_t{1} << bit);
      EXPECT_EQ(WhatIsWrongWithReceipt(bad, 5), "has steps that do not make its chain");
    }
  }
}

TEST(ReceiptTest, HoldsTogether) {
  EXPECT_THAT(WhatIsWrongWithReceipt(ReceiptOf(3), 4), HasSubstr("has step 1 as number 1 of 3"));
  v1::Receipt receipt = ReceiptOf(3);
  receipt.set_previous_xxh3_128("none");
  EXPECT_THAT(WhatIsWrongWithReceipt(receipt, 3), HasSubstr("names a manifest before it"));
  receipt = ReceiptOf(3);
  receipt.set_chain_xxh3_128("x");
  EXPECT_THAT(WhatIsWrongWithReceipt(receipt, 3), HasSubstr("no digest"));
  receipt.clear_steps();
  EXPECT_EQ(WhatIsWrongWithReceipt(receipt, 3), "has a chain and no steps");
}

TEST(ReceiptTest, ALaterOneGoesOnFromAnEarlierOne) {
  const v1::Receipt earlier = ReceiptOf(300), later = ReceiptOf(400);
  EXPECT_EQ(Contradiction(earlier, 300, later), "");
  v1::Receipt other = later;
  other.mutable_steps(100)->set_loss_bits(1);  // step 245
  EXPECT_EQ(Contradiction(earlier, 300, other), "has other numbers for step 245");
  other = later;
  other.mutable_steps(200)->set_loss_bits(1);  // step 345
  EXPECT_EQ(Contradiction(earlier, 300, other), "has steps after 300 that do not make its chain");
  v1::Receipt forged = earlier;
  forged.set_chain_xxh3_128(later.chain_xxh3_128());
  EXPECT_EQ(Contradiction(forged, 300, later), "has steps after 300 that do not make its chain");
  // The steps in between are not known.
  EXPECT_EQ(Contradiction(ReceiptOf(100), 100, later), "");
  // The earlier checkpoint has no receipt.
  EXPECT_EQ(Contradiction(v1::Receipt(), 300, later), "");
}

}  // namespace
}  // namespace zerofleet::checkpoint
