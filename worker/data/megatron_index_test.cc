// Indices as Megatron writes them, and damaged ones.
#include "worker/data/megatron_index.h"

#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
void Put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

struct Written {
  uint64_t version = 1;
  uint8_t type = 8;  // uint16
  std::vector<int32_t> lengths = {3, 2, 0, 4};
  std::vector<int64_t> offsets = {0, 6, 10, 10};
  std::vector<int64_t> documents = {0, 2, 2, 4};  // the second is empty
  std::string behind = "";

  std::string Bytes() const {
    std::string bytes("MMIDIDX\0\0", 9);
    Put(bytes, version);
    Put(bytes, type);
    Put<uint64_t>(bytes, lengths.size());
    Put<uint64_t>(bytes, documents.size());
    for (const int32_t length : lengths) Put(bytes, length);
    for (const int64_t offset : offsets) Put(bytes, offset);
    for (const int64_t document : documents) Put(bytes, document);
    return bytes + behind;
  }
};

class MegatronIndexTest : public ::testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(RemoveTree(path_).ok()); }

  absl::StatusOr<MegatronIndex> Read(const std::string& bytes, int64_t data_bytes = 18) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return ReadMegatronIndex(**TokenFile::Open(path_, /*keep_open=*/true), data_bytes);
  }

  const std::string path_ = ::testing::TempDir() + "megatron_" + std::to_string(getpid()) + ".idx";
};

TEST_F(MegatronIndexTest, SaysWhereDocumentsStart) {
  for (const char* behind : {"", "\1\1\1\1"}) {
    const absl::StatusOr<MegatronIndex> index = Read(Written{.behind = behind}.Bytes());
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_EQ(index->tokens, 9);
    EXPECT_THAT(index->document_starts, ElementsAre(0, 5));
  }
  EXPECT_THAT(Read(Written{.type = 4, .offsets = {0, 12, 20, 20}}.Bytes(), 36)->document_starts, ElementsAre(0, 5));
}

TEST_F(MegatronIndexTest, DamagedOnesAreRefused) {
  const std::string good = Written().Bytes();
  for (size_t length = 9; length < good.size(); ++length) {
    EXPECT_EQ(Read(good.substr(0, length)).status().code(), absl::StatusCode::kDataLoss) << length;
  }
  for (const auto& [bytes, wanted] : {
           std::pair{Written{.version = 2}.Bytes(), "is of version 2"},
           {Written{.lengths = {3, -2, 4, 4}}.Bytes(), "has -2 tokens in sequence 1"},
           {Written{.offsets = {0, 8, 10, 10}}.Bytes(), "has sequence 1 at byte 8, not behind"},
           {Written{.documents = {0, 3, 2, 4}}.Bytes(), "has a bound of documents at sequence 2"},
           {Written{.documents = {0, 5}}.Bytes(), "has a bound of documents at sequence 5"},
           {Written{.documents = {-1, 4}}.Bytes(), "has a bound of documents at sequence -1"},
           {Written{.behind = "x"}.Bytes(), "says that it has 4 sequences and 4 bounds, so 114 bytes, but has 115"},
       }) {
    EXPECT_THAT(Read(bytes).status().message(), HasSubstr(wanted));
  }
  EXPECT_THAT(Read(good, 20).status().message(), HasSubstr("describes 18 bytes, and its .bin has 20"));
  std::string huge = good;
  huge[25] = '\x7f';  // the highest byte of the number of sequences
  EXPECT_THAT(Read(huge).status().message(), HasSubstr("has fewer entries than it says"));
}

}  // namespace
}  // namespace zerofleet::data
