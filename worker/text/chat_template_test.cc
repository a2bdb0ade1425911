// Which template a tokenizer has, and the text that a chat becomes.
#include "worker/text/chat_template.h"

#include "gtest/gtest.h"

namespace zerofleet::text {
namespace {

constexpr char kTurns[] =
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>\n{{ message['content'] | trim }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

nlohmann::ordered_json Chat() {
  return {{{"role", "user"}, {"content", " hello "}}, {{"role", "assistant"}, {"content", "hi"}}};
}

TEST(ChatTemplateTest, MessagesBecomeText) {
  const auto chat =
      ChatTemplate::Parse(kTurns, R"({"bos_token": {"content": "<s>"}, "chat_template": "not this one"})");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(*chat->Render(Chat(), /*answer=*/true, 0),
            "<s><|user|>\nhello<|end|>\n<|assistant|>\nhi<|end|>\n<|assistant|>\n");
  EXPECT_EQ(*chat->Render(Chat(), /*answer=*/false, 0), "<s><|user|>\nhello<|end|>\n<|assistant|>\nhi<|end|>\n");
  EXPECT_EQ(chat->EndOfAnswer(0), "<|end|>\n");
}

TEST(ChatTemplateTest, ConfigHoldsOneOrNamedOnes) {
  EXPECT_EQ(*ChatTemplate::Parse("", R"({"chat_template": "one"})")->Render(Chat(), true, 0), "one");
  const char* const named =
      R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})";
  EXPECT_EQ(*ChatTemplate::Parse("", named)->Render(Chat(), true, 0), "d");
  EXPECT_TRUE(absl::IsNotFound(ChatTemplate::Parse("", R"({"bos_token": "<s>"})").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ChatTemplate::Parse("", R"({"chat_template": 3})").status()));
  EXPECT_EQ(ChatTemplate::Parse("a\n{% x %}", "").status().message(),
            "chat_template: line 2: {% x %} is not supported");
}

}  // namespace
}  // namespace zerofleet::text
