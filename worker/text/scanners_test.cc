// Scanners against libonig, on random texts of the characters that matter.
#include "worker/text/scanners.h"

#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "worker/text/pattern.h"
#include "worker/text/unicode.h"

namespace zerofleet::text {
namespace {

constexpr char kGpt2[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr char kCl100k[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kO200k[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// DeepSeek V3's, one after another.
constexpr char kNumbers[] = R"(\p{N}{1,3})", kEastAsian[] = "[一-龥぀-ゟ゠-ヿ]+";
constexpr char kDeepSeek[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
// tiktoken's expressions, in which $ matches only the end of the text.
constexpr char kTiktokenGpt2[] = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++\z|\s+(?!\S)|\s)";
constexpr char kTiktokenCl100k[] =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++\z|\s*[\r\n]|\s+(?!\S)|\s)";

std::string Joined(std::mt19937& draw, const std::vector<std::string>& pieces, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += pieces[draw() % pieces.size()];
  return text;
}

// Characters of all classes that the expressions distinguish, and any others.
std::string RandomText(std::mt19937& draw) {
  static const std::vector<std::string> pieces = {
      "a",      "B",      "s",      "S",      "t",  "re",     "LL",     "'",      "'",    " ",          " ",  "  ",
      "\t",     "\n",     "\r",     "\r\n",   "\v", "\u0085", "\u00a0", "\u3000", "1",    "23",         "٣",  "Ⅷ",
      "²",      "!",      "/",      "//",     "-",  "\u200b", "é",      "É",      "ǅ",    "ʰ",          "一", "ア",
      "\u0301", "\u0903", "\u20dd", "ſ",      "ß",  "ﬆ",      "K",      "İ",      "🙂", "\U0001F1E9", "ไ",  "\u200d",
      "ゞ",     "・",     "゛",     "\u3099", "龥", "\u9fa6", "\u0001", "\u007f"};
  std::string text;
  const int length = 1 + static_cast<int>(draw() % 14);
  for (int i = 0; i < length; ++i) {
    if (draw() % 12 != 0) {
      text += pieces[draw() % pieces.size()];
      continue;
    }
    const uint32_t code = draw() % (draw() % 4 == 0 ? 0x110000 : 0x3000);
    if (code < 0xD800 || code > 0xDFFF) AppendUtf8(code, text);
  }
  return text;
}

// ASCII of more than a block, with some other character now and then.
std::string RandomAscii(std::mt19937& draw) {
  static const std::vector<std::string> ends = {"'s", "'T", "'re", "'VE", "'m", "'ll", "'D", "'ſ", "'l", "'x", "'"};
  static const std::vector<std::string> spaces = {" ", " ", " ", "  ", "\t", "\n", "\r\n", "\n\n", " \n", "\v", "\f"};
  static const std::vector<std::string> marks = {"!", "/", "//", "//\n//\n", "-", "'", "''",
                                                 "(", "_", "@",  "[",        "`", "{", "~"};
  static const std::vector<std::string> digits = {"0", "9", "23", "123", "4567"};
  static const std::vector<std::string> others = {"\u0001", "\u001b", "\u007f", "é", "ſ", "\u0301", "一", "\u00a0"};
  std::string text;
  const size_t length = 10 + draw() % 80;
  while (text.size() < length) {
    const uint32_t kind = draw() % 64;
    if (kind < 24) {
      for (uint32_t i = 1 + draw() % 6; i > 0; --i)
        text += static_cast<char>((draw() % 4 == 0 ? 'A' : 'a') + draw() % 26);
      if (draw() % 4 == 0) text += Joined(draw, ends, 1 + draw() % 2);
    } else if (kind < 46) {
      text += Joined(draw, spaces, 1 + (draw() % 3 == 0 ? draw() % 4 : 0));
    } else if (kind < 56) {
      text += Joined(draw, marks, 1 + draw() % 2);
    } else {
      text += kind < 63 ? Joined(draw, digits, 1) : Joined(draw, others, 1);
    }
  }
  return text;
}

using Expressions = std::vector<std::string>;

// The ends of the parts into which `expressions` divide `text`, one after another.
class Divider {
 public:
  explicit Divider(const Expressions& expressions) {
    for (const std::string& each : expressions) patterns_.push_back(RegexPattern(each).value());
  }

  std::vector<size_t> Ends(const std::string& text) const {
    std::vector<size_t> ends = {text.size()};
    for (const std::unique_ptr<Pattern>& pattern : patterns_) {
      std::vector<size_t> divided;
      size_t begin = 0;
      for (const size_t end : ends) {
        const std::vector<Span> spans = pattern->Find(std::string_view(text).substr(begin, end - begin)).value();
        for (const Span& span : spans) divided.push_back(begin + span.end);
        begin = end;
      }
      ends = std::move(divided);
    }
    return ends;
  }

 private:
  std::vector<std::unique_ptr<Pattern>> patterns_;
};

// Finds words as many at a time as `room` says.
std::vector<size_t> Ends(Scanner scanner, const std::string& text, size_t room = 64) {
  std::vector<size_t> all, ends(room);
  for (size_t at = 0; at < text.size(); at = all.back()) {
    const size_t count = scanner(text, at, ends);
    EXPECT_GT(count, 0);
    EXPECT_LE(count, room);
    if (count == 0 || count > room) break;
    all.insert(all.end(), ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(count));
    if (all.back() <= at || all.back() > text.size()) ADD_FAILURE() << "ends at " << all.back();
    if (all.back() <= at) break;
  }
  return all;
}

struct Both {
  Expressions expressions;
  Scanner scanner;
};

// All that there are.
std::vector<Both> AllScanners() {
  std::vector<Both> all;
  for (const Expressions& each : {Expressions{kGpt2}, Expressions{kCl100k}, Expressions{kQwen}, Expressions{kO200k},
                                  Expressions{kNumbers, kEastAsian, kDeepSeek}}) {
    all.push_back({each, ScannerOf(each)});
  }
  all.push_back({{kTiktokenGpt2}, ScanGpt2});
  all.push_back({{kTiktokenCl100k}, ScanTiktokenCl100k});
  return all;
}

// The environment variable ZF_SCANNED_TEXTS sets the number of texts; ten million have been compared this way.
TEST(Scanners, FindWhatLibonigFinds) {
  const char* const wanted = std::getenv("ZF_SCANNED_TEXTS");
  const int64_t texts = wanted == nullptr ? 2000 : std::atoll(wanted);
  for (const Both& both : AllScanners()) {
    ASSERT_NE(both.scanner, nullptr) << both.expressions.back();
    const Divider libonig(both.expressions);
    std::mt19937 draw(7);
    for (int64_t i = 0; i < texts; ++i) {
      const std::string text = i % 2 == 0 ? RandomText(draw) : RandomAscii(draw);
      const size_t room = i % 3 == 0 ? 1 + draw() % 8 : 64;
      ASSERT_EQ(absl::StrJoin(Ends(both.scanner, text, room), " "), absl::StrJoin(libonig.Ends(text), " "))
          << both.expressions.back() << " of '" << absl::CHexEscape(text) << "'";
    }
  }
}

TEST(Scanners, EveryCharacterIsOfItsClass) {
  for (const Expressions& each : {Expressions{kO200k}, Expressions{kNumbers, kEastAsian, kDeepSeek}}) {
    const Divider libonig(each);
    const Scanner scanner = ScannerOf(each);
    // Code points spread over all planes, each between letters, digits, marks and white space.
    for (uint32_t code = 0; code < 0x110000; code += code < 0x3000 ? 11 : 307) {
      if (code >= 0xD800 && code <= 0xDFFF) continue;
      std::string text = "a";
      for (const char* between : {"B", "1", "!", " ", "\u0301"}) {
        AppendUtf8(code, text);
        text += between;
      }
      ASSERT_EQ(Ends(scanner, text), libonig.Ends(text)) << code;
    }
  }
}

TEST(Scanners, OtherExpressionsHaveNone) {
  EXPECT_EQ(ScannerOf(Expressions{R"(\s+)"}), nullptr);
  EXPECT_EQ(ScannerOf(Expressions{""}), nullptr);
  EXPECT_EQ(ScannerOf(Expressions{}), nullptr);
  EXPECT_EQ(ScannerOf(Expressions{kGpt2, kGpt2}), nullptr);
}

}  // namespace
}  // namespace zerofleet::text
