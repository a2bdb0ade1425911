// Tokens of text: made once, found again, by the right tokenizer.
#include "worker/data/text_tokens.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/tokenize.h"

namespace zerofleet::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The letters of bytes are tokens, and so are "ab" and "<end>".
constexpr char kTokenizer[] =
    R"({"added_tokens":[{"id":4,"content":"<|endoftext|>","single_word":false,"lstrip":false,)"
    R"("rstrip":false,"normalized":false,"special":true}],)"
    R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":["a b"]}})";

class TextTokensTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "text_tokens_" + std::to_string(getpid());
    ASSERT_TRUE(CreateDirectories(directory_).ok());
    options_.directory = JoinPath(directory_, "kept");
    options_.threads = 2;
    config_.set_tokenizer(Write("tokenizer.json", kTokenizer));
  }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = JoinPath(directory_, name);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  absl::StatusOr<TextTokens> Open(const std::string& path) {
    const auto file = TokenFile::Open(path, true).value();
    const absl::StatusOr<TokenFormat> format = RecogniseFormat({path, file->bytes(), file->head(), ""}, "auto");
    if (!format.ok()) return format.status();
    TextTokenizer tokenizer(config_, options_);
    absl::StatusOr<TextTokens> tokens = tokenizer.Open(*file, *format);
    makers_ = tokenizer.Makers();
    return tokens;
  }
  std::vector<int> Ids(const std::string& path) {
    const absl::StatusOr<TextTokens> tokens = Open(path);
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    if (!tokens.ok()) return {};
    EXPECT_EQ(tokens->format.name, "tokens_u16");
    std::vector<uint16_t> ids(tokens->format.tokens);
    EXPECT_TRUE(tokens->file->Read(0, std::as_writable_bytes(std::span(ids))).ok());
    return {ids.begin(), ids.end()};
  }
  std::string Error(const std::string& path) { return std::string(Open(path).status().message()); }
  std::vector<std::string> Kept() { return ListDirectory(options_.directory).value_or(std::vector<std::string>()); }

  std::string directory_;
  v1::DataConfig config_;
  TextOptions options_;
  std::string makers_;  // Makers() after the last Open
};

// Puts c before a user's message, and a before any other.
constexpr char kChatTemplate[] =
    "{% for m in messages %}{% if m.role == 'user' %}c{% else %}a{% endif %}{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}a{% endif %}";
constexpr char kChat[] =
    R"({"messages":[{"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"a"},)"
    R"({"role":"assistant","content":"b"}]})";

TEST_F(TextTokensTest, AChatIsItsTemplatesText) {
  Write("chat_template.jinja", kChatTemplate);
  EXPECT_THAT(Ids(Write("a.jsonl", kChat)), ElementsAre(3, 1, 0, 3, 3, 0, 2, 4));
  // With another template the kept tokens are not used.
  Write("chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_THAT(Ids(JoinPath(directory_, "a.jsonl")), ElementsAre(1, 3, 2, 4));
}

TEST_F(TextTokensTest, AnotherEndTokenMakesOtherTokens) {
  const std::string text = Write("a.txt", "ab");
  const std::vector<int> before = Ids(text);
  Write("tokenizer_config.json", R"({"eos_token": {"content": "c"}})");
  const std::vector<int> after = Ids(text);
  EXPECT_EQ(before.size(), after.size());
  EXPECT_NE(before.back(), after.back());
  EXPECT_EQ(after.back(), 3);
}

TEST_F(TextTokensTest, WhatMakesTokensBesideTheTokenizerIsTold) {
  ASSERT_TRUE(Open(Write("a.txt", "ab")).ok());
  EXPECT_EQ(makers_, "");
  Write("tokenizer_config.json", R"({"eos_token": "c"})");
  ASSERT_TRUE(Open(Write("a.txt", "ab")).ok());
  EXPECT_EQ(makers_, R"(end token \"c\")");
  Write("chat_template.jinja", kChatTemplate);
  ASSERT_TRUE(Open(Write("a.jsonl", kChat)).ok());
  EXPECT_THAT(makers_, HasSubstr(", chat template "));
}

TEST_F(TextTokensTest, AChatKeepsTheOrderOfItsKeys) {
  Write("chat_template.jinja", "{% for m in messages %}{% for key in m.content %}{{ key }}{% endfor %}{% endfor %}");
  EXPECT_THAT(Ids(Write("a.jsonl", R"({"messages":[{"role":"tool","content":{"c":1,"b":2,"a":3}}]})")),
              ElementsAre(3, 1, 0, 4));
}

TEST_F(TextTokensTest, OfAChatTheAnswersCount) {
  Write("chat_template.jinja", kChatTemplate);
  config_.set_loss_on("assistant");
  const absl::StatusOr<TextTokens> tokens = Open(Write("a.jsonl", kChat));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  std::vector<int32_t> ids(tokens->format.tokens);
  EXPECT_TRUE(tokens->file->Read(0, std::as_writable_bytes(std::span(ids))).ok());
  const auto seen = [](int32_t id) { return id | kUncounted; };
  EXPECT_THAT(ids, ElementsAre(seen(3), seen(1), seen(0), 3, seen(3), seen(0), seen(0), 1, seen(4 | kEndsDocument)));
}

TEST_F(TextTokensTest, AChatThatCannotBeReadIsRefusedByItsLine) {
  EXPECT_THAT(Error(Write("a.jsonl", kChat)), HasSubstr("a.jsonl: line 1: has \"messages\", and the tokenizer has no"));
  Write("chat_template.jinja", kChatTemplate);
  for (const char* wrong : {"[]", "3", "\"hello\"", "[3]", "[{\"role\": 7}]", "[{\"content\": \"a\"}]"}) {
    EXPECT_THAT(Error(Write("b.jsonl", absl::StrCat("{\"messages\": ", wrong, "}"))),
                HasSubstr("b.jsonl: line 1: \"messages\" must be a list of objects that have a \"role\" each"));
  }
  // The template prints the last answer differently from those before it.
  Write("chat_template.jinja", "{% for m in messages %}{{ m.content }}{% if loop.last %}a{% endif %}{% endfor %}");
  config_.set_loss_on("assistant");
  EXPECT_THAT(Error(Write("c.jsonl", kChat)), HasSubstr("the chat template changes what stands before an answer"));
  // The last answer stays open where another is to follow, so that one answer ends behind the beginning of the next.
  Write("chat_template.jinja",
        "{% for m in messages %}{{ m.content }}{% if not (loop.last and add_generation_prompt) %}c{% endif %}"
        "{% endfor %}");
  EXPECT_THAT(Error(Write("d.jsonl", R"({"messages":[{"role":"user","content":"b"},)"
                                     R"({"role":"assistant","content":"a"},{"role":"assistant","content":"b"}]})")),
              HasSubstr("the chat template changes what stands before an answer"));
}

TEST_F(TextTokensTest, ATextIsOneDocumentAndEndsWithItsToken) {
  const std::string path = Write("a.txt", "abcab");
  EXPECT_THAT(Ids(path), ElementsAre(2, 3, 2, 4));
  const TextTokens tokens = Open(path).value();
  EXPECT_EQ(tokens.documents, 1);
  EXPECT_EQ(tokens.text_bytes, 5);
  EXPECT_THAT(Ids(Write("empty.txt", "")), IsEmpty());
}

TEST_F(TextTokensTest, ALineOfJsonIsADocument) {
  const std::string path = Write("a.jsonl", "{\"text\":\"ab\",\"more\":[1]}\r\n\n{\"text\":\"c\"}");
  EXPECT_THAT(Ids(path), ElementsAre(2, 4, 3, 4));
  EXPECT_EQ(Open(path)->documents, 2);
  options_.end_token = kNoEndToken;
  EXPECT_THAT(Ids(path), ElementsAre(2, 3));
  options_.end_token = 1;
  EXPECT_THAT(Ids(path), ElementsAre(2, 1, 3, 1));
}

TEST_F(TextTokensTest, WhatIsNoDocumentIsNamedByItsLine) {
  EXPECT_THAT(Error(Write("a.jsonl", "{\"text\":\"ab\"}\n{\"txt\":\"c\"}\n")),
              HasSubstr("a.jsonl: line 2: has no \"text\""));
  EXPECT_THAT(Error(Write("b.jsonl", "{\"text\":1}")), HasSubstr("line 1: has no \"text\" that is a string"));
  EXPECT_THAT(Error(Write("c.jsonl", "\n\n[1]\n")), HasSubstr("line 3: must be an object"));
  EXPECT_THAT(Error(Write("d.jsonl", "{\"text\":\"a\"\n")), HasSubstr("line 1: "));
  EXPECT_THAT(Kept(), IsEmpty());
}

TEST_F(TextTokensTest, ASecondStartFindsWhatTheFirstMade) {
  const std::string path = Write("a.txt", "abc");
  config_.set_tokenizer_digest(text::Tokenizer::Load(config_.tokenizer()).value()->digest());
  EXPECT_THAT(Ids(path), ElementsAre(2, 3, 4));
  EXPECT_THAT(Kept(), SizeIs(1));
  ASSERT_TRUE(RemoveOne(config_.tokenizer()).ok());  // the tokenizer is no longer needed
  EXPECT_THAT(Ids(path), ElementsAre(2, 3, 4));
}

TEST_F(TextTokensTest, WhatIsCutShortIsMadeAnew) {
  const std::string path = Write("a.txt", "abc");
  EXPECT_THAT(Ids(path), ElementsAre(2, 3, 4));
  const std::string kept = JoinPath(options_.directory, Kept().at(0));
  ASSERT_EQ(truncate(kept.c_str(), FileBytes(kept).value() - 1), 0);
  EXPECT_THAT(Ids(path), ElementsAre(2, 3, 4));
}

TEST_F(TextTokensTest, AnotherTextAndAnotherTokenizerAreOthers) {
  const std::string path = Write("a.txt", "abc");
  EXPECT_THAT(Ids(path), ElementsAre(2, 3, 4));
  Write("a.txt", "bbb");
  EXPECT_THAT(Ids(path), ElementsAre(1, 1, 1, 4));
  std::string other = kTokenizer;
  Write("tokenizer.json", other.replace(other.find("\"a b\""), 5, ""));
  EXPECT_THAT(Ids(Write("a.txt", "ab")), ElementsAre(0, 1, 4));
}

TEST_F(TextTokensTest, TheRunsTokenizerIsHeldAgainstTheFile) {
  config_.set_tokenizer_digest(std::string(32, '0'));
  EXPECT_THAT(Error(Write("a.txt", "abc")), AllOf(HasSubstr("data.tokenizer: "), HasSubstr(std::string(32, '0'))));
  config_.set_tokenizer("/nowhere/tokenizer.json");
  EXPECT_THAT(Error(Write("a.txt", "abc")), HasSubstr("data.tokenizer: /nowhere/tokenizer.json"));
}

TEST_F(TextTokensTest, ProcessesThatShareADirectoryMakeThemOnce) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "abc";
  const std::string path = Write("a.txt", text);
  std::atomic<int> began = 0;
  options_.progress = [&](const std::string&, double) { ++began; };
  std::vector<std::thread> openers;
  for (int i = 0; i < 4; ++i) openers.emplace_back([&] { EXPECT_EQ(Open(path)->format.tokens, 100'001); });
  for (std::thread& opener : openers) opener.join();
  EXPECT_EQ(began, 1);  // only one opener made the tokens, in one round
}

// Who is stopped while another process makes the tokens leaves that process's lock where it is.
TEST_F(TextTokensTest, WhoOnlyWaitsRemovesNoLock) {
  const std::string path = Write("a.txt", "abc");
  ASSERT_TRUE(Open(path).ok());
  ASSERT_THAT(Kept(), SizeIs(1));
  const std::string kept = JoinPath(options_.directory, Kept().front()), lock = kept + ".lock";
  ASSERT_EQ(unlink(kept.c_str()), 0);
  const int maker = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_EQ(flock(maker, LOCK_EX), 0);
  options_.cancelled = [] { return true; };
  EXPECT_EQ(Open(path).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(access(lock.c_str(), F_OK), 0);
  close(maker);
}

TEST_F(TextTokensTest, TokensOfManyTextsTakeFewDescriptors) {
  const auto open_now = [] { return ListDirectory("/proc/self/fd")->size(); };
  TextTokenizer tokenizer(config_, options_);
  const size_t before = open_now();
  std::vector<TextTokens> all;
  for (int i = 0; i < kMostKeptOpen + 20; ++i) {
    const auto file = TokenFile::Open(Write("a.txt", std::string(1 + i, 'a')), true).value();
    all.push_back(
        tokenizer.Open(*file, RecogniseFormat({file->path(), file->bytes(), file->head(), ""}, "auto").value())
            .value());
  }
  EXPECT_LE(open_now(), before + kMostKeptOpen);
  uint16_t first = 9;
  EXPECT_TRUE(all.back().file->Read(0, std::as_writable_bytes(std::span(&first, 1))).ok());
  EXPECT_EQ(first, 0);
}

TEST_F(TextTokensTest, TheDayOfChatsIsTheSameWestOfGreenwich) {
  setenv("TZ", "EST5EDT,M3.2.0,M11.1.0", 1);
  tzset();
  Write("chat_template.jinja", "{{ 'a' if strftime_now('%d %B %Y') == '26 July 2024' else 'b' }}");
  EXPECT_THAT(Ids(Write("a.jsonl", kChat)), ElementsAre(0, 4));
  unsetenv("TZ");
  tzset();
}

TEST_F(TextTokensTest, WithoutADirectoryTheyAreInMemory) {
  options_.directory.clear();
  EXPECT_THAT(Ids(Write("a.txt", "abc")), ElementsAre(2, 3, 4));
}

TEST_F(TextTokensTest, StopsWhenItIsTold) {
  options_.cancelled = [] { return true; };
  EXPECT_EQ(Open(Write("a.txt", "abc")).status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Kept(), IsEmpty());
}

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = text.size();
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = packed.size();
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string Zstd(const std::string& text) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

TEST_F(TextTokensTest, CompressedTextIsText) {
  EXPECT_THAT(Ids(Write("a.txt.gz", Gzip("abc"))), ElementsAre(2, 3, 4));
  EXPECT_THAT(Ids(Write("b.txt.gz", Gzip("ab") + Gzip("") + Gzip("c"))), ElementsAre(2, 3, 4));
  EXPECT_THAT(Ids(Write("a.jsonl.zst", Zstd("{\"text\":\"ab\"}\n"))), ElementsAre(2, 4));
  EXPECT_THAT(Ids(Write("b.jsonl.zst", Zstd("{\"text\":\"ab\"}\n") + Zstd("{\"text\":\"c\"}\n"))),
              ElementsAre(2, 4, 3, 4));
  const std::string large(300'000, 'c');  // more output than there is room for at once
  EXPECT_THAT(Ids(Write("large.txt.gz", Gzip(large))), SizeIs(300'001));
  EXPECT_THAT(Ids(Write("large.txt.zst", Zstd(large))), SizeIs(300'001));
}

TEST_F(TextTokensTest, DamagedCompressionIsNamed) {
  for (const std::string& packed : {Gzip("abcabcabc"), Zstd("abcabcabc")}) {
    std::string damaged = packed;
    damaged[damaged.size() - 2] ^= 0x55;
    EXPECT_THAT(Error(Write("bad.txt.gz", damaged)), HasSubstr("bad.txt.gz: the compressed data is damaged"));
    EXPECT_THAT(Error(Write("bad.txt.gz", packed.substr(0, packed.size() - 3))), HasSubstr("ends in the middle"));
  }
}

}  // namespace
}  // namespace zerofleet::data
