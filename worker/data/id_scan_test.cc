// The first id that is too large is found, wherever it is and whichever thread finds it.
#include "worker/data/id_scan.h"

#include <unistd.h>

#include <fstream>
#include <vector>

#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet::data {
namespace {

class IdScanTest : public testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(RemoveTree(path_).ok()); }

  template <typename T>
  std::optional<FoundId> Find(const std::vector<T>& ids, int64_t vocab, int threads, int64_t tokens = -1) {
    std::string bytes = "head" + std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(T));
    EXPECT_TRUE(std::ofstream(path_, std::ios::binary).write(bytes.data(), std::ssize(bytes)).good());
    TokenFormat format{"", sizeof(T), 4, static_cast<int64_t>(ids.size())};
    auto file = TokenFile::Open(path_, true).value();
    auto found = FindIdNotBelow(*file, format, tokens < 0 ? format.tokens : tokens, vocab, threads, nullptr);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : std::nullopt;
  }

  const std::string path_ = JoinPath(testing::TempDir(), "zerofleet_id_scan_" + std::to_string(getpid()));
};

TEST_F(IdScanTest, FindsOneIdAnywhere) {
  // Around the ends of lanes, blocks and chunks (262144 ids of 16 bits).
  for (int64_t at : {0, 1, 63, 64, 1023, 1024, 262143, 262144, 524287, 524288, 599999}) {
    std::vector<uint16_t> ids(600000, 255);
    EXPECT_FALSE(Find(ids, 256, 2).has_value());
    ids[at] = 256;
    std::optional<FoundId> found = Find(ids, 256, 2);
    ASSERT_TRUE(found.has_value()) << at;
    EXPECT_EQ(found->position, at);
    EXPECT_EQ(found->id, 256u);
    EXPECT_FALSE(Find(ids, 256, 2, at).has_value()) << "beyond what was asked for";
  }
}

TEST_F(IdScanTest, NamesTheFirstOfMany) {
  std::vector<uint32_t> ids(700000, 1);
  for (size_t i = 131070; i < ids.size(); i += 13) ids[i] = 0x80000000u + static_cast<uint32_t>(i);
  for (int threads : {1, 2, 8}) {
    std::optional<FoundId> found = Find(ids, 50257, threads);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->position, 131070);
    EXPECT_EQ(found->id, 0x80000000u + 131070);
  }
}

TEST_F(IdScanTest, EveryWidthIsComparedUnsigned) {
  EXPECT_EQ(Find<uint8_t>({1, 2, 200}, 200, 1)->position, 2);
  EXPECT_EQ(Find<uint16_t>({1, 65535}, 65535, 1)->position, 1);
  EXPECT_FALSE(Find<uint16_t>({1, 65535}, 65536 + 2, 1).has_value());
  EXPECT_EQ(Find<uint32_t>({1, 0xffffffffu}, int64_t{1} << 31, 1)->position, 1);
  EXPECT_FALSE(Find<uint32_t>({1, 0x7fffffffu}, int64_t{1} << 31, 1).has_value());
}

TEST_F(IdScanTest, StopsWhenAsked) {
  ASSERT_TRUE(WriteFileAtomically(path_, std::string(100, 'a')).ok());
  auto file = TokenFile::Open(path_, true).value();
  EXPECT_TRUE(absl::IsCancelled(FindIdNotBelow(*file, {"text", 1, 0, 100}, 100, 1, 1, [] { return true; }).status()));
}

TEST_F(IdScanTest, AFileCutShortIsAnError) {
  ASSERT_TRUE(WriteFileAtomically(path_, std::string(100, 'a')).ok());
  auto file = TokenFile::Open(path_, true).value();
  ASSERT_EQ(truncate(path_.c_str(), 50), 0);
  EXPECT_TRUE(absl::IsDataLoss(FindIdNotBelow(*file, {"text", 1, 0, 100}, 100, 200, 1, nullptr).status()));
}

TEST(MayExceed, DependsOnTheWidth) {
  EXPECT_FALSE(MayExceed({"text", 1, 0, 0}, 256));
  EXPECT_TRUE(MayExceed({"text", 1, 0, 0}, 255));
  EXPECT_FALSE(MayExceed({"tokens_u16", 2, 0, 0}, 65536));
  EXPECT_TRUE(MayExceed({"tokens_u16", 2, 0, 0}, 50257));
  EXPECT_TRUE(MayExceed({"tokens_u32", 4, 0, 0}, 128256));
}

}  // namespace
}  // namespace zerofleet::data
