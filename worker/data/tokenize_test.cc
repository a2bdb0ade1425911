// Files of many blocks: the same ids on any number of threads, and what ends the work early.
#include "worker/data/tokenize.h"

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::data {
namespace {

using ::testing::HasSubstr;

constexpr int kLines = 40'000, kBadLine = 30'000;

class TokenizeManyBlocks : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "tokenize_" + std::to_string(getpid()) + ".jsonl";
    options_.threads = GetParam();
  }
  void TearDown() override { unlink(path_.c_str()); }

  // Writes lines of some 90 bytes, one of them malformed if `bad_line` > 0.
  void WriteLines(int bad_line) {
    std::ofstream file(path_);
    for (int line = 1; line <= kLines; ++line) {
      const std::string text = std::to_string(line) + std::string(70, 'x');
      file << (line == bad_line ? "{" : "{\"text\": \"" + text + "\"}") << "\n";
      if (bad_line == 0 || line < bad_line) want_ += text;
    }
  }

  absl::StatusOr<TokenizeCounts> Run(const absl::Status& of_sink = absl::OkStatus()) {
    const auto file = TokenFile::Open(path_, true).value();
    const TokenFormat format = RecogniseFormat({path_, file->bytes(), file->head(), ""}, "auto").value();
    const auto tokenizer = text::Tokenizer::Load("bytes").value();
    const auto caller = std::this_thread::get_id();
    return Tokenize(*file, format, *tokenizer, options_, [&, caller](std::span<const int32_t> ids) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      got_.append(ids.begin(), ids.end());
      ++blocks_;
      return of_sink;
    });
  }

  std::string path_, got_, want_;
  int blocks_ = 0;
  TokenizeOptions options_;
};

TEST_P(TokenizeManyBlocks, GiveTheirIdsInOrder) {
  WriteLines(0);
  const auto counts = Run();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_GT(blocks_, 10);
  EXPECT_TRUE(got_ == want_);
  EXPECT_EQ(counts->documents, kLines);
  EXPECT_EQ(counts->tokens, static_cast<int64_t>(want_.size()));
  EXPECT_EQ(counts->text_bytes, static_cast<int64_t>(want_.size()));
}

TEST_P(TokenizeManyBlocks, EndAtTheFirstFault) {
  WriteLines(kBadLine);
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("line 30000: not valid JSON"));
  EXPECT_TRUE(want_.starts_with(got_));
  EXPECT_GT(got_.size(), want_.size() * 9 / 10);
}

TEST_P(TokenizeManyBlocks, EndWithTheSinksError) {
  WriteLines(0);
  EXPECT_EQ(Run(absl::ResourceExhaustedError("full")).status().message(), "full");
  EXPECT_EQ(blocks_, 1);
}

TEST_P(TokenizeManyBlocks, EndWhenCancelled) {
  WriteLines(0);
  std::atomic<bool> cancelled = false;
  options_.progress = [&](int64_t bytes) { cancelled = bytes > 0; };
  options_.cancelled = [&] { return cancelled.load(); };
  EXPECT_TRUE(absl::IsCancelled(Run().status()));
  EXPECT_TRUE(want_.starts_with(got_));
  EXPECT_LT(got_.size(), want_.size());
}

// As for want of memory: no thread waits for the one that has failed.
TEST_P(TokenizeManyBlocks, EndWhenAThreadThrows) {
  WriteLines(0);
  for (const int failing : {1, 2, 7}) {
    std::atomic<int> calls = 0;
    options_.cancelled = [&]() -> bool { return ++calls == failing ? throw std::bad_alloc() : false; };
    EXPECT_THROW(Run().status().IgnoreError(), std::bad_alloc);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, TokenizeManyBlocks, ::testing::Values(1, 2, 5));

}  // namespace
}  // namespace zerofleet::data
