// Records of an event file, byte by byte.
#include "cli/report/tensorboard.h"

#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(Crc32c, IsThatOfRfc3720) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
}

class TensorBoardTest : public ::testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  // The contents of the records of all files; checks their lengths and checksums.
  std::vector<std::string> Records() const {
    std::vector<std::string> records;
    const std::vector<std::string> names = *ListDirectory(directory_);
    for (const std::string& name : names) {
      const std::string bytes = *ReadSmallFile(JoinPath(directory_, name), 1 << 20);
      for (size_t at = 0; at < bytes.size();) {
        uint64_t length = 0;
        std::memcpy(&length, bytes.data() + at, sizeof length);
        records.push_back(bytes.substr(at + 12, length));
        EXPECT_EQ(bytes.substr(at + 8, 4), Masked(bytes.substr(at, 8)));
        EXPECT_EQ(bytes.substr(at + 12 + length, 4), Masked(records.back()));
        at += 12 + length + 4;
        EXPECT_LE(at, bytes.size());
      }
    }
    return records;
  }

  // The checksum rotated right by 15 bits, plus a constant.
  static std::string Masked(const std::string& data) {
    const uint32_t crc = Crc32c(data), masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
    return {reinterpret_cast<const char*>(&masked), sizeof masked};
  }

  const std::string directory_ = JoinPath(testing::TempDir(), absl::StrCat("zerofleet_tensorboard_", getpid()));
};

TEST_F(TensorBoardTest, AStepsFiguresAreScalars) {
  v1::Event event;
  event.set_unix_seconds(1000);
  event.mutable_step()->set_step(300);
  event.mutable_step()->set_loss(2.5);
  const auto writer = *TensorBoardWriter::Open(directory_, 1000);
  writer->Write(event);
  event.mutable_evaluate()->set_loss(3);
  v1::SetLoss& set = *event.mutable_evaluate()->add_sets();
  set.set_name("wiki");
  set.set_loss(2);
  writer->Write(event);
  ASSERT_TRUE(writer->status().ok());
  const std::vector<std::string> records = Records();
  ASSERT_THAT(records, SizeIs(8));
  EXPECT_THAT(records[0], HasSubstr("brain.Event:2"));
  // wall_time 1000.0, step 300, summary { value { tag "loss/training", simple_value 2.5 } }
  EXPECT_EQ(
      records[1],
      std::string("\x09\0\0\0\0\0\x40\x8f\x40\x10\xac\x02\x2a\x16\x0a\x14\x0a\x0dloss/training\x15\0\0\x20\x40", 36));
  EXPECT_THAT(records[6], HasSubstr("loss/validation"));
  EXPECT_THAT(records[7], HasSubstr("loss/validation_wiki"));
}

TEST_F(TensorBoardTest, HistogramsHaveTheirBuckets) {
  v1::Event event;
  event.set_unix_seconds(1000);
  v1::HistogramEvent& histogram = *event.mutable_histogram();
  histogram.set_step(2);
  histogram.set_tensor("w");
  histogram.set_values("weights");
  histogram.set_least(-1);
  histogram.set_most(2);
  histogram.set_count(3);
  histogram.set_sum(1);
  histogram.set_sum_of_squares(5);
  for (const double limit : {-0.5, 2.5}) histogram.add_limits(limit);
  for (const int64_t count : {1, 2}) histogram.add_counts(count);
  const auto writer = *TensorBoardWriter::Open(directory_, 1000);
  writer->Write(event);
  const std::vector<std::string> records = Records();
  ASSERT_THAT(records, SizeIs(2));
  std::string expected("\x09\0\0\0\0\0\x40\x8f\x40\x10\x02\x2a\x60\x0a\x5e\x0a\x09weights/w\x2a\x51", 28);
  const auto put = [&expected](double number) { expected.append(reinterpret_cast<const char*>(&number), 8); };
  const double numbers[] = {-1, 2, 3, 1, 5};
  for (int i = 0; i < 5; ++i) {
    expected.push_back(static_cast<char>((i + 1) << 3 | 1));
    put(numbers[i]);
  }
  expected.append("\x32\x10");
  for (const double limit : {-0.5, 2.5}) put(limit);
  expected.append("\x3a\x10");
  for (const double count : {1.0, 2.0}) put(count);
  EXPECT_EQ(records[1], expected);
}

TEST(RunDirectories, AreToldApart) {
  EXPECT_THAT(RunDirectories({"/x/a.jsonl", "/x/b.jsonl"}).value(), ElementsAre("a", "b"));
  EXPECT_THAT(RunDirectories({"/x/a/run.jsonl", "/x/b/run.jsonl", "/x/b/c.jsonl"}).value(),
              ElementsAre("a_run", "b_run", "b_c"));
  EXPECT_THAT(RunDirectories({"/x/run.jsonl", "/x/run.json"}).value(), ElementsAre("run.jsonl", "run.json"));
  EXPECT_THAT(RunDirectories({"/run", "/x/run"}).value(), ElementsAre("run", "x_run"));
  EXPECT_THAT(RunDirectories({"/a_b/c", "/a/b_c", "/q/c"}).value(), ElementsAre("0_c", "1_b_c", "2_c"));
  EXPECT_EQ(RunDirectories({"/x/run", "/x/../x/run"}).status().message(), "RUN: /x/../x/run is given twice");
}

TEST_F(TensorBoardTest, ADirectoryThatIsAFileIsNamed) {
  ASSERT_TRUE(WriteFileAtomically(directory_, "").ok());
  const absl::Status status = TensorBoardWriter::Open(directory_, 1).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(directory_));
}

}  // namespace
}  // namespace zerofleet::cli
