// Bytes there and back, and the names that are refused.
#include "worker/data/tokenizer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TokenizerTest, BytesAreTokensBothWays) {
  ByteTokenizer tokenizer;
  EXPECT_THAT(tokenizer.Encode("a\xff\n"), ElementsAre(97, 255, 10));
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every.push_back(static_cast<char>(byte));
  EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(every)).value(), every);
}

TEST(TokenizerTest, DecodingRefusesWhatIsNoByte) {
  for (int32_t token : {-1, 256}) {
    absl::Status status = ByteTokenizer().Decode(std::vector<int32_t>{65, token}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(token)));
  }
}

TEST(TokenizerTest, UnknownNamesAreRefusedByKey) {
  EXPECT_EQ(Tokenizer::Create("bytes").value()->vocab(), 256);
  absl::Status status = Tokenizer::Create("spm.model").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("data.tokenizer: 'spm.model'"));
}

}  // namespace
}  // namespace zerofleet::data
