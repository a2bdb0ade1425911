// Which format a file is recognised as, and which files are refused by name.
#include "worker/data/format.h"

#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Returns the format's name, token width, offset and number of tokens; or the error.
std::string Recognise(const std::string& path, const std::string& contents, const std::string& format = "auto",
                      int64_t bytes = -1, const std::string& index_head = "") {
  FileFacts file{path, bytes < 0 ? static_cast<int64_t>(contents.size()) : bytes,
                 std::string_view(contents).substr(0, kFormatHeadBytes), index_head};
  absl::StatusOr<TokenFormat> found = RecogniseFormat(file, format);
  if (!found.ok()) {
    EXPECT_EQ(found.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(found.status().message()), HasSubstr(path + ": "));
    return std::string(found.status().message());
  }
  return found->name + " " + std::to_string(found->token_bytes) + " " + std::to_string(found->data_offset) + " " +
         std::to_string(found->tokens);
}

std::string Llmc(uint32_t magic, uint32_t version, uint32_t tokens, size_t data_bytes) {
  std::string file(1024 + data_bytes, '\0');
  const uint32_t header[3] = {magic, version, tokens};
  std::memcpy(file.data(), header, sizeof header);
  return file;
}

std::string IndexOfType(char type) {
  return std::string("MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17) + type + std::string(16, '\0');
}

TEST(Format, EndingsDecideUnderAuto) {
  const std::string ids("\1\0\2\0\3\0\4\0", 8);
  EXPECT_EQ(Recognise("a.bin", ids), "tokens_u16 2 0 4");
  EXPECT_EQ(Recognise("a.u16", ids), "tokens_u16 2 0 4");
  EXPECT_EQ(Recognise("a.u32", ids), "tokens_u32 4 0 2");
  EXPECT_EQ(Recognise("a.txt", "eight by"), "text 1 0 8");
  EXPECT_EQ(Recognise("a.bin", "eight by", "text"), "text 1 0 8");
  EXPECT_EQ(Recognise("a.txt", ids, "tokens_u32"), "tokens_u32 4 0 2");
}

TEST(Format, LlmcHeadersAreSkipped) {
  EXPECT_EQ(Recognise("a.bin", Llmc(20240520, 1, 7, 14)), "tokens_u16 2 1024 7");
  EXPECT_EQ(Recognise("a.bin", Llmc(20240801, 7, 7, 28)), "tokens_u32 4 1024 7");
  EXPECT_EQ(Recognise("renamed", Llmc(20240520, 1, 7, 14)), "tokens_u16 2 1024 7");
  EXPECT_EQ(Recognise("a.bin", Llmc(20240520, 1, 7, 14), "tokens_u16"), "tokens_u16 2 1024 7");
  EXPECT_EQ(Recognise("a.bin", Llmc(20240520, 1, 3000000000u, 0), "auto", 1024 + 6000000000),
            "tokens_u16 2 1024 3000000000");
}

TEST(Format, LlmcFilesMustBeWhatTheirHeaderSays) {
  EXPECT_THAT(Recognise("a.bin", Llmc(20240520, 1, 7, 14), "tokens_u32"),
              AllOf(HasSubstr("16-bit"), HasSubstr("must be auto or tokens_u16, got tokens_u32")));
  EXPECT_THAT(Recognise("a.bin", Llmc(20240520, 1, 7, 12)),
              AllOf(HasSubstr("declares 7 tokens, so 1038 bytes"), HasSubstr("has 1036 bytes")));
  EXPECT_THAT(Recognise("a.bin", Llmc(20240520, 1, 7, 14).substr(0, 9)), HasSubstr("has 9 bytes"));
  EXPECT_THAT(Recognise("a.bin", Llmc(20240520, 2, 7, 14)), HasSubstr("version 2, which is not supported"));
  EXPECT_THAT(Recognise("a.bin", Llmc(20240801, 1, 7, 14)), HasSubstr("version 1, which is not supported"));
  EXPECT_THAT(Recognise("a.bin", Llmc(20240522, 1, 7, 14)), HasSubstr("llm.c evaluation file"));
}

TEST(Format, MegatronPairsAreNamed) {
  const std::string ids("\1\0\2\0\3\0\4\0", 8);
  for (const char* format : {"auto", "tokens_u16", "tokens_u32"}) {
    EXPECT_THAT(Recognise("a.idx", IndexOfType(8), format), HasSubstr("a Megatron index"));
    EXPECT_THAT(Recognise("a.idx", std::string("TNTIDX\0\0\1\0\0\0", 12), format), HasSubstr("a Megatron index"));
  }
  EXPECT_EQ(Recognise("a.bin", ids, "auto", 8, IndexOfType(8)), "tokens_u16 2 0 4");
  EXPECT_EQ(Recognise("a.bin", ids, "auto", 8, IndexOfType(4)), "tokens_u32 4 0 2");
  EXPECT_THAT(Recognise("a.bin", ids, "tokens_u16", 8, IndexOfType(4)),
              HasSubstr("of 32-bit tokens; data.format must be auto or tokens_u32, got tokens_u16"));
  EXPECT_THAT(Recognise("a.bin", ids, "tokens_u16", 8, IndexOfType(5)), HasSubstr("token type that is not supported"));
  EXPECT_EQ(Recognise("a.bin", ids, "tokens_u16", 8, IndexOfType(8)), "tokens_u16 2 0 4");
  EXPECT_EQ(Recognise("a.bin", ids, "tokens_u32", 8, IndexOfType(4)), "tokens_u32 4 0 2");
  EXPECT_EQ(Recognise("a.bin", ids, "auto", 8, "some other index"), "tokens_u16 2 0 4");
}

TEST(Format, OtherFilesAreRefusedByName) {
  EXPECT_THAT(Recognise("a.npy", "\x93NUMPY...."), HasSubstr("a NumPy array"));
  EXPECT_THAT(Recognise("a.bin", "\x93NUMPY....", "tokens_u16"), HasSubstr("a NumPy array"));
  EXPECT_EQ(Recognise("a.txt.gz", "\x1f\x8b\x08\x01"), "text 1 0 4");
  EXPECT_EQ(Recognise("a.jsonl.zst", "\x28\xb5\x2f\xfd"), "jsonl 1 0 4");
  EXPECT_THAT(Recognise("a.bin.gz", "\x1f\x8b\x08\x01"), HasSubstr("a compressed file of tokens"));
  EXPECT_EQ(Recognise("a.u16", "\x1f\x8b\x08\x01"), "tokens_u16 2 0 2");  // these bytes may be ids
  EXPECT_THAT(Recognise("a.parquet", "PAR1...."), HasSubstr("a Parquet file"));
  EXPECT_THAT(Recognise("a.txt", "\xff\xfet\1e\1x\1t\1"), HasSubstr("UTF-16"));
  EXPECT_THAT(Recognise("a.dat", std::string("\1\0\2\0", 4)), AllOf(HasSubstr("NUL"), HasSubstr("tokens_u16")));
  EXPECT_EQ(Recognise("a.dat", std::string("\1\0\2\0", 4), "text"), "text 1 0 4");
}

TEST(Format, TextUnderATokenFilesNameIsRefused) {
  const std::string text = "In the beginning God created the heaven and the earth.";
  EXPECT_THAT(Recognise("a.bin", text), AllOf(HasSubstr("looks like text"), HasSubstr("to text, or to tokens_u16")));
  EXPECT_THAT(Recognise("a.u32", text + "\xc3"), HasSubstr("looks like text"));  // cut off within a character
  EXPECT_EQ(Recognise("a.bin", text, "tokens_u16"), "tokens_u16 2 0 27");
  std::string ids;  // one byte of each id is a letter, the other zero, which is a control character
  for (const char c : text) ids += std::string(1, c) + '\0';
  EXPECT_EQ(Recognise("a.bin", ids), "tokens_u16 2 0 54");
}

TEST(Format, WideTokensUnderANarrowNameAreRefused) {
  std::vector<uint32_t> wide(300);
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<uint32_t>(i * 421 % 128256);
  const std::string bytes(reinterpret_cast<const char*>(wide.data()), wide.size() * 4);
  EXPECT_THAT(Recognise("a.bin", bytes), HasSubstr("looks like 32-bit tokens"));
  EXPECT_EQ(Recognise("a.bin", bytes, "tokens_u16"), "tokens_u16 2 0 600");
  EXPECT_EQ(Recognise("a.bin", std::string(1200, '\0')), "tokens_u16 2 0 600");  // padding says nothing
}

TEST(Format, LengthsAreWholeTokens) {
  EXPECT_THAT(Recognise("a.u16", "abc"), HasSubstr("3 bytes are not a whole number of 2-byte tokens (tokens_u16)"));
}

TEST(Format, UnknownNamesAreRefusedByKey) {
  EXPECT_EQ(CheckFormatName("megatron").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(CheckFormatName("tokens_u32").ok());
}

}  // namespace
}  // namespace zerofleet::data
