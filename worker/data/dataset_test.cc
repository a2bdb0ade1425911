// Sample boundaries, formats, and the files that are refused.
#include "worker/data/dataset.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Letters and "ab" are tokens, and token 4 ends a text.
constexpr char kLettersTokenizer[] =
    R"({"added_tokens":[{"id":4,"content":"<|endoftext|>","single_word":false,"lstrip":false,)"
    R"("rstrip":false,"normalized":false,"special":true}],)"
    R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":["a b"]}})";

class DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RemoveTree(directory_).ok());
    ASSERT_TRUE(CreateDirectories(directory_).ok());
    config_.set_format("auto");
    config_.set_tokenizer("bytes");
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  std::string Path(const std::string& name) const { return JoinPath(directory_, name); }
  std::string WriteBytes(const std::string& name, std::string_view bytes) {
    EXPECT_TRUE(std::ofstream(Path(name), std::ios::binary).write(bytes.data(), std::ssize(bytes)).good());
    return Path(name);
  }
  template <typename T>
  std::string WriteTokens(const std::string& name, const std::vector<T>& tokens) {
    return WriteBytes(name, {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T)});
  }
  absl::StatusOr<std::unique_ptr<Dataset>> Open(const std::vector<std::string>& paths, int64_t context,
                                                int64_t vocab = 256) {
    std::vector<DataPath> named;
    for (const std::string& path : paths) named.push_back({"data.train[" + std::to_string(named.size()) + "]", path});
    TextTokenizer text(config_, {});
    return Dataset::Open(config_, named, context, vocab, text);
  }
  std::string OpenError(const std::vector<std::string>& paths, int64_t context, absl::StatusCode code) {
    absl::Status status = Open(paths, context).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }
  static std::vector<int32_t> Sample(const Dataset& dataset, int64_t sample) {
    std::vector<int32_t> tokens(dataset.context() + 1, -1);
    absl::Status status = dataset.Read(sample, tokens);
    EXPECT_TRUE(status.ok()) << status;
    return tokens;
  }

  std::string directory_ = JoinPath(testing::TempDir(), "zerofleet_dataset_test_" + std::to_string(getpid()));
  v1::DataConfig config_;
};

TEST_F(DatasetTest, SamplesOverlapByTheirTarget) {
  config_.set_format("text");
  auto dataset = Open({WriteBytes("a.txt", std::string("\0\1\2\3\4\5\6\7", 8))}, 3).value();
  EXPECT_EQ(dataset->samples(), 2);  // floor((8-1)/3)
  EXPECT_THAT(Sample(*dataset, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Sample(*dataset, 1), ElementsAre(3, 4, 5, 6));
}

TEST_F(DatasetTest, CountsAreFloorOfTokensLessOneByContext) {
  for (int64_t tokens = 5; tokens < 40; ++tokens) {
    std::string path = WriteBytes("a.txt", std::string(tokens, 'x'));
    EXPECT_EQ(Open({path}, 4).value()->samples(), (tokens - 1) / 4) << tokens;
  }
}

TEST_F(DatasetTest, SamplesDoNotCrossFiles) {
  std::string one = WriteBytes("1.txt", "abcde"), two = WriteBytes("2.txt", "vwxyz");
  auto dataset = Open({two, one}, 2).value();
  EXPECT_EQ(dataset->samples(), 4);
  EXPECT_THAT(Sample(*dataset, 1), ElementsAre('x', 'y', 'z'));
  EXPECT_THAT(Sample(*dataset, 2), ElementsAre('a', 'b', 'c'));
}

TEST_F(DatasetTest, WidthsFollowEndingOrFormat) {
  std::string u16 = WriteTokens<uint16_t>("a.bin", {1, 256, 65535});
  std::string u32 = WriteTokens<uint32_t>("a.u32", {70000, 2, 99999});
  auto dataset = Open({u16, u32}, 2, 100000).value();
  EXPECT_THAT(Sample(*dataset, 0), ElementsAre(1, 256, 65535));
  EXPECT_THAT(Sample(*dataset, 1), ElementsAre(70000, 2, 99999));
  config_.set_format("text");
  EXPECT_EQ(Open({u16}, 2).value()->samples(), 2);
  config_.set_format("tokens_u16");
  EXPECT_EQ(Open({u32}, 5).value()->samples(), 1);
}

TEST_F(DatasetTest, DirectoriesAreTheirFilesSorted) {
  ASSERT_TRUE(CreateDirectories(Path("d/sub")).ok());
  WriteBytes("d/b.txt", "bbb");
  WriteBytes("d/a.txt", "aaa");
  WriteBytes("d/short.txt", "s");
  WriteBytes("d/.hidden", "hhhhhh");
  WriteBytes("d/sub/c.txt", "ccc");
  auto dataset = Open({Path("d")}, 2).value();
  EXPECT_EQ(dataset->samples(), 2);
  EXPECT_THAT(Sample(*dataset, 0), ElementsAre('a', 'a', 'a'));
  EXPECT_THAT(Sample(*dataset, 1), ElementsAre('b', 'b', 'b'));
}

TEST_F(DatasetTest, FilesWithoutASampleAreRefusedWithTheirCounts) {
  EXPECT_THAT(OpenError({Path("none.txt")}, 4, absl::StatusCode::kNotFound), HasSubstr("none.txt"));
  EXPECT_THAT(OpenError({WriteBytes("empty.txt", "")}, 4, absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("empty.txt: 0 tokens"), HasSubstr("at least 5")));
  EXPECT_THAT(OpenError({WriteBytes("short.txt", "abcd")}, 4, absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("short.txt: 4 tokens"), HasSubstr("at least 5")));
  ASSERT_TRUE(CreateDirectories(Path("d")).ok());
  WriteBytes("d/a.txt", "abc");
  EXPECT_THAT(OpenError({Path("d")}, 4, absl::StatusCode::kDataLoss), HasSubstr("the longest has 3 tokens"));
  EXPECT_THAT(OpenError({}, 4, absl::StatusCode::kInvalidArgument), HasSubstr("no files"));
}

TEST_F(DatasetTest, OddLengthsAreRefused) {
  EXPECT_THAT(OpenError({WriteBytes("a.u16", std::string(101, '\1'))}, 4, absl::StatusCode::kDataLoss),
              AllOf(HasSubstr("a.u16: 101 bytes"), HasSubstr("2-byte")));
  EXPECT_THAT(OpenError({WriteBytes("a.u32", std::string(102, '\1'))}, 4, absl::StatusCode::kDataLoss),
              HasSubstr("4-byte"));
}

TEST_F(DatasetTest, IdsBeyondTheVocabularyAreNamed) {
  auto dataset = Open({WriteTokens<uint16_t>("a.u16", {1, 2, 3, 4, 300, 5, 6})}, 2, 300).value();
  EXPECT_THAT(Sample(*dataset, 0), ElementsAre(1, 2, 3));
  std::vector<int32_t> tokens(3);
  for (int64_t sample : {1, 2}) {
    absl::Status status = dataset->Read(sample, tokens);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("data.train[0]: "), HasSubstr("a.u16: token 4 is id 300"),
                      HasSubstr("below the vocabulary, 300")));
  }
  auto wide = Open({WriteTokens<uint32_t>("a.u32", {1, 0xffffffffu})}, 1, 300).value();
  EXPECT_EQ(wide->Read(0, std::span(tokens).first(2)).code(), absl::StatusCode::kDataLoss);
}

TEST_F(DatasetTest, TextThatIsNamedAsTokensIsCalledText) {
  const std::string json = "{\"text\": \"It was the best of times, it was the worst of times.\"}\n";
  config_.set_format("tokens_u16");
  auto dataset = Open({WriteBytes("even.json", json + (json.size() % 2 == 0 ? "" : "\n"))}, 2, 300).value();
  std::vector<int32_t> tokens(3);
  EXPECT_THAT(std::string(dataset->Read(0, tokens).message()),
              HasSubstr("below the vocabulary, 300; it looks like text: set data.format to text"));
  EXPECT_THAT(
      OpenError({WriteBytes("odd.json", json + (json.size() % 2 == 0 ? "\n" : ""))}, 2, absl::StatusCode::kDataLoss),
      HasSubstr("2-byte tokens (tokens_u16); it looks like text"));
}

TEST_F(DatasetTest, ErrorsNameTheKeyAndTheFile) {
  std::string good = WriteBytes("good.txt", "abcdefgh");
  EXPECT_THAT(OpenError({good, "/dev/zero"}, 4, absl::StatusCode::kNotFound),
              AllOf(HasSubstr("data.train[1]: /dev/zero: not a regular file"), HasSubstr("must be a file of text")));
  EXPECT_THAT(OpenError({good, good, Path("gone")}, 4, absl::StatusCode::kNotFound), HasSubstr("data.train[2]: "));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(OpenError({Path("pipe")}, 4, absl::StatusCode::kNotFound), HasSubstr("pipe: not a regular file"));
}

TEST_F(DatasetTest, DirectoriesNameLinksThatLeadNowhere) {
  ASSERT_TRUE(CreateDirectories(Path("d")).ok());
  WriteBytes("d/a.txt", "abcdefgh");
  ASSERT_EQ(symlink("gone", Path("d/loop").c_str()), 0);
  EXPECT_THAT(OpenError({Path("d")}, 4, absl::StatusCode::kNotFound), HasSubstr("d/loop: cannot stat"));
}

TEST_F(DatasetTest, LlmcFilesAreReadWithoutTheirHeader) {
  std::vector<uint16_t> file(512 + 5, 0);
  const uint32_t header[3] = {20240520, 1, 5};
  std::memcpy(file.data(), header, sizeof header);
  std::iota(file.begin() + 512, file.end(), 50);
  auto dataset = Open({WriteTokens<uint16_t>("a.bin", file)}, 2, 60).value();
  EXPECT_EQ(dataset->samples(), 2);
  EXPECT_THAT(Sample(*dataset, 0), ElementsAre(50, 51, 52));
  EXPECT_THAT(Sample(*dataset, 1), ElementsAre(52, 53, 54));
}

TEST_F(DatasetTest, MegatronPairsAreReadByTheirIndex) {
  // Two documents, of 3 tokens and of 2, each one sequence.
  std::string index("MMIDIDX\0\0\1\0\0\0\0\0\0\0\x8", 18);
  for (const int64_t count : {2, 3}) index.append(reinterpret_cast<const char*>(&count), 8);
  for (const int32_t length : {3, 2}) index.append(reinterpret_cast<const char*>(&length), 4);
  for (const int64_t value : {0, 6, 0, 1, 2}) index.append(reinterpret_cast<const char*>(&value), 8);
  ASSERT_TRUE(CreateDirectories(Path("d")).ok());
  WriteBytes("d/a.idx", index);
  const std::string bin = WriteTokens<uint16_t>("d/a.bin", {1, 2, 3, 4, 5});
  for (const char* format : {"auto", "tokens_u16"}) {
    config_.set_format(format);
    const auto dataset = Open({Path("d")}, 2).value();
    EXPECT_EQ(dataset->samples(), 2);
    EXPECT_EQ(dataset->Summarise().documents, 2);
    EXPECT_THAT(Sample(*dataset, 1), ElementsAre(3, 4, 5));
  }
  config_.set_packing(true);  // the index has the documents; no token ends a text
  const auto packed = Open({Path("d")}, 4).value();
  std::vector<int32_t> batch(3 * 4);
  ASSERT_TRUE(packed
                  ->ReadBatch(
                      1, [](int64_t) { return 0; }, batch.data())
                  .ok());
  EXPECT_THAT(batch, ElementsAre(1, 2, 3, 4, 2, 3, -1, 5, 0, 0, 0, 3));
  EXPECT_THAT(OpenError({WriteTokens<uint16_t>("b.u16", {1, 2, 3})}, 2, absl::StatusCode::kInvalidArgument),
              HasSubstr("data.packing: documents are told apart by the token that ends a text"));
  config_.set_packing(false);
  WriteBytes("d/a.idx", index + "xyz");
  EXPECT_THAT(OpenError({bin}, 2, absl::StatusCode::kDataLoss), HasSubstr("a.idx: a Megatron index that says"));
  config_.set_format("tokens_u32");
  EXPECT_THAT(OpenError({bin}, 2, absl::StatusCode::kDataLoss), HasSubstr("data.format must be auto or tokens_u16"));
  EXPECT_THAT(OpenError({Path("d/a.idx")}, 2, absl::StatusCode::kDataLoss), HasSubstr("a Megatron index"));
}

// --- Every id, before the first step

class CheckIdsTest : public DatasetTest {
 protected:
  // Returns the status, and the bytes that were compared.
  std::pair<absl::Status, int64_t> Check(const std::vector<std::string>& paths, int64_t context, int64_t vocab) {
    auto dataset = Open(paths, context, vocab);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    CheckedFiles checked = CheckedFiles::Load(Path("checked"));
    absl::StatusOr<int64_t> bytes = (*dataset)->CheckIds(2, checked, nullptr);
    checked.Save();
    return {bytes.status(), bytes.value_or(-1)};
  }
};

TEST_F(CheckIdsTest, NamesFilePositionAndId) {
  std::string good = WriteTokens<uint16_t>("good.u16", {1, 2, 3, 4, 5});
  std::string bad = WriteTokens<uint16_t>("bad.u16", {1, 2, 3, 4, 5, 6, 300, 7, 301});
  auto [status, bytes] = Check({good, bad}, 2, 300);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("data.train[1]: "), HasSubstr("bad.u16: token 6 is id 300"),
                    HasSubstr("below the vocabulary, 300")));
  EXPECT_EQ(Check({good, bad}, 2, 302).second, 10 + 18);
}

TEST_F(CheckIdsTest, TokensThatNoSampleHoldsDoNotCount) {
  std::string path = WriteTokens<uint16_t>("a.u16", {1, 2, 3, 4, 5, 300});
  EXPECT_TRUE(Check({path}, 2, 300).first.ok());   // 2 samples of 5 tokens
  EXPECT_FALSE(Check({path}, 5, 300).first.ok());  // 1 of 6
}

TEST_F(CheckIdsTest, ASecondStartReadsNothing) {
  std::string path = WriteTokens<uint16_t>("a.u16", {1, 2, 3, 4, 5});
  EXPECT_EQ(Check({path}, 2, 300).second, 10);
  EXPECT_EQ(Check({path}, 2, 300).second, 0);
  EXPECT_EQ(Check({path}, 2, 200).second, 10);  // another vocabulary is another check
  std::string other = WriteTokens<uint16_t>("b.u16", {1, 2, 3, 4, 6});
  EXPECT_EQ(Check({path, other}, 2, 300).second, 10);  // only the new file
  WriteTokens<uint16_t>("a.u16", {1, 2, 3, 4, 300});
  EXPECT_EQ(Check({path}, 2, 300).first.code(), absl::StatusCode::kDataLoss);
}

// The second start finds the tokens instead of making them.
TEST_F(CheckIdsTest, DamagedTokensOfATextAreNamed) {
  config_.set_tokenizer(WriteBytes("tokenizer.json", kLettersTokenizer));
  const DataPath path = {"data.train[0]", WriteBytes("a.txt", "abcabcabcabc")};
  TextOptions options;
  options.directory = Path("kept");
  CheckedFiles checked = CheckedFiles::Load("");
  const auto check = [&] {
    TextTokenizer text(config_, options);
    return Dataset::Open(config_, {path}, 2, 512, text).value()->CheckIds(1, checked, nullptr).status();
  };
  EXPECT_TRUE(check().ok());
  const std::string kept = JoinPath(options.directory, ListDirectory(options.directory).value().front());
  std::fstream(kept, std::ios::in | std::ios::out | std::ios::binary).write("\x09\0\x09", 3);
  const absl::Status damaged = check();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()), StartsWith(kept + ": damaged: "));
}

TEST_F(CheckIdsTest, BytesNeedNoCheckUnderAVocabularyOfBytes) {
  std::string path = WriteBytes("a.txt", "abcdefgh");
  EXPECT_EQ(Check({path}, 2, 256).second, 0);
  EXPECT_EQ(Check({path}, 2, 128).second, 7);
  EXPECT_FALSE(Check({path}, 2, 'g').first.ok());
}

// --- Files that change under a run

TEST_F(DatasetTest, AFileCutShortIsNamed) {
  std::string path = WriteTokens<uint16_t>("a.u16", std::vector<uint16_t>(20000, 7));
  auto dataset = Open({path}, 99).value();
  Sample(*dataset, 200);
  ASSERT_EQ(truncate(path.c_str(), 1000), 0);
  std::vector<int32_t> tokens(100);
  for (int64_t sample : {0, 200}) {
    absl::Status status = dataset->Read(sample, tokens);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("data.train[0]: "), HasSubstr("a.u16: had 40000 bytes when it was opened, now has 1000")));
  }
}

TEST_F(DatasetTest, ReadingAsIdsAreWidenedInPlace) {
  std::vector<uint16_t> ids(1000);
  std::iota(ids.begin(), ids.end(), 64000);
  auto dataset = Open({WriteTokens("a.u16", ids)}, 999, 65536).value();
  EXPECT_EQ(Sample(*dataset, 0), std::vector<int32_t>(ids.begin(), ids.end()));
  std::string text;
  for (int i = 0; i < 1000; ++i) text.push_back(static_cast<char>(i * 7));
  config_.set_format("text");
  std::vector<int32_t> read = Sample(*Open({WriteBytes("a.txt", text)}, 999).value(), 0);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(read[i], i * 7 % 256);
}

TEST_F(DatasetTest, MoreFilesThanMayBeKeptOpen) {
  ASSERT_TRUE(CreateDirectories(Path("d")).ok());
  for (int i = 1000; i < 1400; ++i) {
    ASSERT_EQ(
        symlink(WriteBytes("t" + std::to_string(i), std::to_string(i)).c_str(), Path("d/" + std::to_string(i)).c_str()),
        0);
  }
  auto dataset = Open({Path("d")}, 3).value();
  ASSERT_EQ(dataset->samples(), 400);
  for (int i : {0, 255, 256, 399}) EXPECT_EQ(Sample(*dataset, i)[2], '0' + i / 10 % 10) << i;
  ASSERT_TRUE(WriteFileAtomically(Path("t1399"), "9931").ok());  // another file under this name
  std::vector<int32_t> tokens(4);
  EXPECT_THAT(std::string(dataset->Read(399, tokens).message()), HasSubstr("was replaced by another file"));
}

// --- A trained model's data

TEST_F(DatasetTest, AModelOfTokensRefusesTextAndTheOtherWayRound) {
  std::string text = WriteBytes("held.txt", "It was the best of times, it was the worst of times.");
  std::string tokens = WriteTokens<uint16_t>("held.bin", {1, 2, 3, 4, 5});
  std::string unnamed = WriteTokens<uint16_t>("held.dat", {1, 2, 3, 4, 5});
  auto open = [&](const std::string& format, const std::string& train, const std::string& path) {
    v1::DataConfig trained = config_;
    trained.set_format(format);
    trained.add_train(train);
    auto dataset = OpenForModel(trained, {"--data", path}, 2, 256);
    return dataset.ok() ? std::to_string((*dataset)->samples()) : std::string(dataset.status().message());
  };
  for (const char* format : {"auto", "tokens_u16"}) {
    EXPECT_THAT(open(format, "a.u16", text), AllOf(HasSubstr("--data: "), HasSubstr("held.txt: is text, but")));
    EXPECT_EQ(open(format, "a.u16", tokens), "2");
    EXPECT_EQ(open(format, "a.u16", unnamed), "2");
  }
  EXPECT_THAT(open("auto", "a.txt", tokens), AllOf(HasSubstr("held.bin: holds tokens"), HasSubstr("trained on text")));
  EXPECT_EQ(open("auto", "a.txt", text), "25");
  EXPECT_EQ(open("text", "a.txt", tokens), "4");  // the model takes the bytes of any file
  const std::string wide = WriteTokens<uint32_t>("wide.bin", {1, 2, 3, 4, 5});
  EXPECT_EQ(open("tokens_u32", "a.bin", wide), "2");
  EXPECT_THAT(open("tokens_u32", "a.bin", tokens), HasSubstr("10 bytes are not a whole number of 4-byte tokens"));
  EXPECT_THAT(open("auto", "a.txt", Path("gone")), HasSubstr("--data: "));
}

// A file of tokens with the tokenizer of a fixture, whose token 4 ends a text.
TEST_F(DatasetTest, PackedDocumentsStartAnew) {
  config_.set_tokenizer(WriteBytes("tokenizer.json", kLettersTokenizer));
  config_.set_packing(true);
  constexpr int32_t end = 4;
  const std::string path = WriteTokens<uint16_t>("a.u16", {1, 2, end, 3, 10, 5, 6, end, end, 7, 8, 9});
  auto dataset = Open({path}, 5, 512).value();
  ASSERT_EQ(dataset->samples(), 2);
  std::vector<int32_t> batch(3 * 2 * 5);
  ASSERT_TRUE(dataset
                  ->ReadBatch(
                      2, [](int64_t i) { return 1 - i; }, batch.data())
                  .ok());
  const auto row = [&](int array, int sample) {
    const auto begin = batch.begin() + (2 * array + sample) * 5;
    return std::vector<int32_t>(begin, begin + 5);
  };
  EXPECT_THAT(row(0, 0), ElementsAre(5, 6, end, end, 7));
  EXPECT_THAT(row(1, 0), ElementsAre(6, end, -1, -1, 8));
  EXPECT_THAT(row(2, 0), ElementsAre(0, 0, 0, 3, 4));
  EXPECT_THAT(row(0, 1), ElementsAre(1, 2, end, 3, 10));
  EXPECT_THAT(row(1, 1), ElementsAre(2, end, -1, 10, 5));
  EXPECT_THAT(row(2, 1), ElementsAre(0, 0, 0, 3, 3));
  EXPECT_EQ(dataset->Counted(0), 4);
  EXPECT_EQ(dataset->Counted(1), 3);
  config_.set_packing(false);
  EXPECT_EQ(Open({path}, 5, 512).value()->Counted(1), 5);
}

// A chat is one document, though its messages end with the token that ends a text.
TEST_F(DatasetTest, PackedChatsAreWhole) {
  config_.set_tokenizer(WriteBytes("tokenizer.json", kLettersTokenizer));
  WriteBytes("chat_template.jinja", "{% for m in messages %}{{ m.content }}<|endoftext|>{% endfor %}");
  const std::string line = R"({"messages":[{"role":"user","content":"ab"},{"role":"assistant","content":"c"}]})"
                           "\n";
  const std::string path = WriteBytes("a.jsonl", line + line);
  config_.set_packing(true);
  for (const char* loss : {"all", "assistant"}) {
    config_.set_loss_on(loss);
    auto dataset = Open({path}, 9, 512).value();
    ASSERT_EQ(dataset->samples(), 1);
    std::vector<int32_t> batch(3 * 9);
    ASSERT_TRUE(dataset
                    ->ReadBatch(
                        1, [](int64_t) { return 0; }, batch.data())
                    .ok());
    const auto row = [&](int array) {
      return std::vector<int32_t>(batch.begin() + 9 * array, batch.begin() + 9 * (array + 1));
    };
    EXPECT_THAT(row(0), ElementsAre(2, 4, 3, 4, 4, 2, 4, 3, 4));
    EXPECT_THAT(row(2), ElementsAre(0, 0, 0, 0, 0, 5, 5, 5, 5));
    if (std::string_view(loss) == "all") {
      EXPECT_THAT(row(1), ElementsAre(4, 3, 4, -1, -1, 4, 3, 4, -1));
    } else {
      EXPECT_THAT(row(1), ElementsAre(-1, 3, 4, -1, -1, -1, 3, 4, -1));
    }
    EXPECT_THAT(Sample(*dataset, 0), ElementsAre(2, 4, 3, 4, 4, 2, 4, 3, 4, 4));
  }
}

TEST_F(DatasetTest, OnlyTheTokensOfCompletionsCount) {
  config_.set_tokenizer(WriteBytes("tokenizer.json", kLettersTokenizer));
  config_.set_loss_on("assistant");
  // Prompts and completions: "ab" and "c", "" and "bab", "cc" and "".
  const std::vector<int32_t> ids = {2, 3, 4, 1, 2, 4, 3, 3, 4}, counts = {0, 1, 1, 1, 1, 1, 0, 0, 1};
  const std::string path = WriteBytes("a.jsonl",
                                      "{\"prompt\": \"ab\", \"completion\": \"c\"}\n"
                                      "{\"prompt\": \"\", \"completion\": \"bab\"}\n"
                                      "{\"prompt\": \"cc\", \"completion\": \"\"}\n");
  const auto context = static_cast<int64_t>(ids.size()) - 1;
  auto dataset = Open({path}, context, 512).value();
  ASSERT_EQ(dataset->samples(), 1);
  EXPECT_EQ(Sample(*dataset, 0), ids);
  std::vector<int32_t> batch(2 * context);
  ASSERT_TRUE(dataset
                  ->ReadBatch(
                      1, [](int64_t) { return 0; }, batch.data())
                  .ok());
  int64_t counted = 0;
  for (int64_t t = 0; t < context; ++t) {
    EXPECT_EQ(batch[t], ids[t]);
    EXPECT_EQ(batch[context + t], counts[t + 1] == 1 ? ids[t + 1] : -1) << t;
    counted += counts[t + 1];
  }
  EXPECT_EQ(dataset->Counted(0), counted);
  for (const auto& [name, text, wanted] :
       {std::tuple{"b.jsonl", "{\"text\": \"no prompt\"}", "line 1: has no \"prompt\" that is a string"},
        {"b.jsonl", "{\"prompt\": \"a\", \"completion\": 3}", "line 1: has no \"completion\" that is a string"},
        {"b.txt", "plain text", "b.txt: data.loss_on: assistant needs JSON lines"},
        {"b.u16", "ab", "b.u16: data.loss_on: assistant needs JSON lines"}}) {
    EXPECT_THAT(OpenError({WriteBytes(name, text)}, 1, absl::StatusCode::kDataLoss), HasSubstr(wanted));
  }
}

TEST_F(DatasetTest, WhatIsNotSupportedIsNamedByKey) {
  std::string path = WriteBytes("a.txt", "abcdefgh");
  config_.set_format("megatron");
  EXPECT_THAT(OpenError({path}, 4, absl::StatusCode::kInvalidArgument),
              HasSubstr("data.format: 'megatron' is not supported"));
  config_.set_format("auto");
  config_.set_tokenizer("spm.model");
  EXPECT_THAT(OpenError({path}, 4, absl::StatusCode::kNotFound), HasSubstr("data.tokenizer: spm.model: "));
}

}  // namespace
}  // namespace zerofleet::data
