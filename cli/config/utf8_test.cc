// Well-formed and ill-formed sequences, whole and in pieces.
#include "cli/config/utf8.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(Utf8, PlainTextHasNoControlCharacters) {
  for (const char* text : {"", "tiny",
                           "gr\xc3\xb6\xc3\x9f"
                           "er",
                           "\xe6\xa8\xa1\xe5\x9e\x8b 1", "\xc2\xa0"}) {
    EXPECT_TRUE(IsPlainText(text)) << text;
  }
  for (const char* text : {"a\nb", "\x1b[31m", "a\x7f", "\xff", "\xc3",
                           "\xc2\x9b"
                           "31m"})
    EXPECT_FALSE(IsPlainText(text));
}

TEST(Utf8, TellsTheLengthOfACharacter) {
  EXPECT_EQ(Utf8Length("a"), 1);
  EXPECT_EQ(Utf8Length("\xc3\xa9x"), 2);
  EXPECT_EQ(Utf8Length("\xe2\x82\xac"), 3);
  EXPECT_EQ(Utf8Length("\xf0\x9f\x98\x80"), 4);
  EXPECT_EQ(Utf8Length("\xf0\x9f"), kUtf8Incomplete);
  // A continuation alone, an overlong form, a surrogate, beyond U+10FFFF, a broken sequence.
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe2(\xac"}) {
    EXPECT_EQ(Utf8Length(bad), kUtf8Invalid);
  }
}

TEST(Utf8, AStreamHoldsBackWhatIsNotWhole) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Add("a\xe2"), "a");
  EXPECT_EQ(stream.Add("\x82"), "");
  EXPECT_EQ(stream.Add("\xac!"), "\xe2\x82\xac!");
  EXPECT_EQ(stream.Add("\xff"
                       "b\xc3"),
            "\xef\xbf\xbd"
            "b");
  EXPECT_EQ(stream.Finish(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.Finish(), "");
}

}  // namespace
}  // namespace zerofleet::cli
