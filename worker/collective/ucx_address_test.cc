// Addresses survive the trip, and damaged ones are refused.
#include "worker/collective/ucx_address.h"

#include <gtest/gtest.h>

namespace zerofleet {
namespace {

TEST(UcxAddressTest, ReturnsWhatWasWrapped) {
  const std::string address("any\0bytes", 9);
  EXPECT_EQ(UnwrapUcxAddress(WrapUcxAddress(address)).value(), address);
}

TEST(UcxAddressTest, RefusesEveryTruncationAndEveryFlippedBit) {
  const std::string wrapped = WrapUcxAddress("an address of some length");
  for (size_t length = 0; length < wrapped.size(); length++) {
    EXPECT_TRUE(absl::IsInvalidArgument(UnwrapUcxAddress(wrapped.substr(0, length)).status())) << length;
  }
  for (size_t bit = 0; bit < wrapped.size() * 8; bit++) {
    std::string flipped = wrapped;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_TRUE(absl::IsInvalidArgument(UnwrapUcxAddress(flipped).status())) << bit;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(UnwrapUcxAddress(wrapped + "x").status()));
}

}  // namespace
}  // namespace zerofleet
