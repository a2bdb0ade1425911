// Distances and suggestions of nearest.h.
#include "cli/config/nearest.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(Nearest, DistanceCountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("heads", "heads"), 0);
  EXPECT_EQ(EditDistance("head", "heads"), 1);
  EXPECT_EQ(EditDistance("haeds", "heads"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(Nearest, TakesTheClosestAndTheFirstOfEquals) {
  EXPECT_EQ(Nearest("learning_rte", {"name", "learning_rate", "beta1"}), "learning_rate");
  EXPECT_EQ(Nearest("beta", {"beta1", "beta2"}), "beta1");
  EXPECT_EQ(Nearest("haeds", {"layers", "heads"}), "heads");
  EXPECT_EQ(Nearest("x", {}), "");
}

TEST(Nearest, SuggestsNothingFarFetched) {
  EXPECT_EQ(Nearest("lr", {"model", "data", "seed"}), "");
  EXPECT_EQ(Nearest("gpu", {"auto", "cpu"}), "cpu") << "one edit; ValueMeant comes before";
  EXPECT_EQ(Nearest("epochs", {"steps", "seed", "batch"}), "");
  EXPECT_EQ(Nearest("abcd", {"abxy"}), "") << "two edits in four characters";
  EXPECT_EQ(Nearest("abcdefgh", {"abcdefxy"}), "abcdefxy");
  EXPECT_EQ(Nearest("abcdefgh", {"abcdexyz"}), "");
  EXPECT_EQ(Nearest("abcdefghi", {"abcdefxyz"}), "abcdefxyz");
}

TEST(Nearest, OtherwiseSaysWhatThereIs) {
  EXPECT_EQ(NearestOrAll("bf61", {"bf16", "fp16", "fp32"}), "did you mean bf16?");
  EXPECT_EQ(NearestOrAll("int8", {"bf16", "fp16", "fp32"}), "use bf16, fp16 or fp32");
  EXPECT_EQ(Alternatives({"one"}), "one");
}

}  // namespace
}  // namespace zerofleet::cli
