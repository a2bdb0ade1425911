// Prompts as lines of text, and as lines of JSON.
#include "cli/commands/prompts.h"

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

TEST(PromptsTest, LinesAreTexts) {
  const auto prompts = ParsePrompts("In the beginning\r\n\n  two words \n");
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_EQ(prompts->size(), 2);
  EXPECT_EQ((*prompts)[0].text, "In the beginning");
  EXPECT_EQ((*prompts)[1].text, "  two words ");
}

TEST(PromptsTest, ObjectsHavePromptsOrMessages) {
  const auto prompts = ParsePrompts(R"({"prompt": "a\nb"}
{"messages": [{"role": "user", "content": "hello"}]})");
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_EQ((*prompts)[0].text, "a\nb");
  EXPECT_EQ((*prompts)[1].messages[0]["content"], "hello");
}

// An editor on Windows puts it before the first line.
TEST(PromptsTest, AByteOrderMarkIsNoPartOfAPrompt) {
  const auto lines = ParsePrompts("\xEF\xBB\xBFone\r\ntwo\r\n");
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_EQ((*lines)[0].text, "one");
  const auto objects = ParsePrompts("\xEF\xBB\xBF{\"prompt\": \"one\"}\n{\"prompt\": \"two\"}\n");
  ASSERT_TRUE(objects.ok()) << objects.status();
  EXPECT_EQ((*objects)[0].text, "one");
  EXPECT_EQ((*objects)[1].text, "two");
}

TEST(PromptsTest, FaultsNameTheLine) {
  EXPECT_EQ(ParsePrompts("\n\n").status().message(), "has no prompt");
  EXPECT_EQ(ParsePrompts("{\"prompt\": \"a\"}\n\n{\"text\": 1}").status().message(),
            "3: has neither a prompt, a text, nor messages, a list");
  EXPECT_EQ(ParsePrompts("{\"prompt\": ").status().message().substr(0, 3), "1: ");
  for (const char* wrong : {"\n\n", "{\"text\": 1}", "{\"prompt\": "}) {
    EXPECT_EQ(ParsePrompts(wrong).status().code(), absl::StatusCode::kDataLoss) << wrong;
  }
}

}  // namespace
}  // namespace zerofleet::cli
