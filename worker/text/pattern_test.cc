// libonig does not replace the C library's regular expressions.
#include "worker/text/pattern.h"

#include <dlfcn.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::text {
namespace {

// libonig exports functions of these names.
TEST(PatternTest, RegularExpressionsOfOthersAreLibcs) {
  for (const char* name : {"regcomp", "regexec", "regfree"}) {
    Dl_info info;
    ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, name), &info), 0);
    EXPECT_THAT(std::string(info.dli_fname), ::testing::Not(::testing::HasSubstr("libonig"))) << name;
  }
}

TEST(PatternTest, LiteralsAreReplacedAsExpressionsAre) {
  const auto literal = LiteralPattern("aa");
  const std::unique_ptr<Pattern> expression = RegexPattern("aa").value();
  for (const char* text : {"", "a", "aa", "aaa", "aaaa", "baab", "baaaab", "ab"}) {
    EXPECT_EQ(literal->Replace(text, "é").value(), expression->Replace(text, "é").value()) << text;
  }
  EXPECT_EQ(literal->Replace("baaa", "é").value(), "béa");
  EXPECT_EQ(LiteralPattern("")->Replace("ab", "x").value(), "ab");
}

}  // namespace
}  // namespace zerofleet::text
