// The tokenizer of bytes, and files that are no tokenizer.
#include "worker/text/tokenizer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TokenizerTest, BytesAreTokensBothWays) {
  const auto tokenizer = Tokenizer::Load("bytes").value();
  EXPECT_THAT(tokenizer->Encode("a\xff\n", /*special=*/true).value(), ElementsAre(97, 255, 10));
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every.push_back(static_cast<char>(byte));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(every, false).value(), false).value(), every);
  EXPECT_EQ(tokenizer->vocab(), 256);
  EXPECT_EQ(tokenizer->end_of_text(), std::nullopt);
}

TEST(TokenizerTest, DecodingRefusesWhatIsNoByte) {
  for (int32_t token : {-1, 256}) {
    absl::Status status = Tokenizer::Load("bytes").value()->Decode(std::vector<int32_t>{65, token}, false).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(token)));
  }
}

TEST(TokenizerTest, AMissingFileIsNamed) {
  const absl::Status status = Tokenizer::Load("/nowhere/spm.json").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/spm.json"));
}

}  // namespace
}  // namespace zerofleet::text
