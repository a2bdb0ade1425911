// One document, two, and text on which counting them all would never end.
#include "cli/config/config_documents.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(LineOfSecondDocument, IsOnlyThereIfADocumentIs) {
  EXPECT_EQ(LineOfSecondDocument(""), std::nullopt);
  EXPECT_EQ(LineOfSecondDocument("# nothing\n"), std::nullopt);
  EXPECT_EQ(LineOfSecondDocument("a: 1\nb: [2, 3]\n"), std::nullopt);
  EXPECT_EQ(LineOfSecondDocument("a: 1\n---\nb: 2\n"), 3);
}

TEST(LineOfSecondDocument, EndsOnTextThatIsNoDocument) {
  EXPECT_TRUE(LineOfSecondDocument(",").has_value());
  EXPECT_TRUE(LineOfSecondDocument("[1], [2]\n").has_value());
  EXPECT_ANY_THROW(LineOfSecondDocument("a: 1\n, b\n"));
}

}  // namespace
}  // namespace zerofleet::cli
