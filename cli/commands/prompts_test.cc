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

TEST(PromptsTest, ASystemMessageComesBeforeEveryChat) {
  auto prompts = ParsePrompts(R"({"prompt": "a"}
{"messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]})");
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_TRUE(TellFirst("Be brief.", *prompts).ok());
  EXPECT_TRUE((*prompts)[0].messages.is_null());
  EXPECT_EQ((*prompts)[1].messages.dump(), R"([{"role":"system","content":"Be brief."},{"role":"user","content":"b"},)"
                                           R"({"role":"assistant","content":"c"}])");
  EXPECT_EQ(TellFirst("Be long.", *prompts).message(),
            "prompt 2 has a system message of its own; leave one of the two out");
  // What is no message is the template's to refuse.
  prompts = ParsePrompts(R"({"messages": ["user", {"role": 7}, {}]})");
  ASSERT_TRUE(TellFirst("Be brief.", *prompts).ok());
  EXPECT_EQ((*prompts)[0].messages.size(), 4u);
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
