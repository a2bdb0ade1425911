// Text that arrives one token at a time equals the text of all tokens, and comes in whole characters.
#include "worker/text/text_stream.h"

#include <string>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/json_parse.h"
#include "worker/text/bpe_tokenizer.h"
#include "worker/text/unicode.h"

namespace zerofleet::text {
namespace {

class TextStreamTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TextStreamTest, IsTheTextOfAllTokens) {
  const std::string path = std::string("tests/oracle/data/tokenizers/") + GetParam() + ".json";
  const nlohmann::json fixture = ParseJson(ReadSmallFile(path, 1 << 20).value()).value();
  const auto tokenizer = BpeTokenizer::Parse(fixture["tokenizer"].dump()).value();
  for (const nlohmann::json& example : fixture["cases"]) {
    const auto ids = example["ids"].get<std::vector<int32_t>>();
    for (size_t before : {size_t{0}, ids.size() / 2}) {
      const std::vector<int32_t> prompt(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(before));
      TextStream stream(*tokenizer, prompt);
      std::string text = tokenizer->Decode(prompt, false).value();
      const bool whole = !text.ends_with("\xEF\xBF\xBD");  // a prompt ends with a whole character
      for (size_t i = before; i < ids.size(); ++i) {
        const std::string more = stream.Add(ids[i]).value();
        EXPECT_TRUE(IsUtf8(more));
        text += more;
      }
      text += stream.Finish().value();
      if (whole) {
        EXPECT_EQ(text, tokenizer->Decode(ids, false).value()) << before;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TextStreamTest, ::testing::Values("gpt2", "llama3", "llama2", "metaspace"));

}  // namespace
}  // namespace zerofleet::text
