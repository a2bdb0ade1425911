// One function for each family of expressions, with the alternatives in the expression's order; see scanners.h.
//
// A greedy class never needs to give back characters that the class behind it would take too, except in two places,
// whose comments say so: white space, and o200k's letters.
#include "worker/text/scanners.h"

#include <oniguruma.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "worker/text/ascii_blocks.h"
#include "worker/text/unicode.h"

namespace zerofleet::text {
namespace {

// Bits of a character's classes, and the classes as expressions.
using Bits = uint16_t;
constexpr Bits kLetter = 1, kNumber = 2, kSpace = 4, kNewline = 8;  // \p{L}, \p{N}, \s, [\r\n]
constexpr Bits kUpper = 16;                                         // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
constexpr Bits kLower = 32;                                         // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
constexpr Bits kMark = 64, kSymbol = 128;                           // \p{M}, [\p{P}\p{S}]
constexpr Bits kEastAsian = 256;                                    // [一-龥぀-ゟ゠-ヿ]
constexpr uint32_t kCodes = 0x110000;

void AddProperty(const char* name, Bits bits, std::vector<Bits>& classes) {
  OnigEncoding encoding = ONIG_ENCODING_UTF8;
  const auto* begin = reinterpret_cast<const OnigUChar*>(name);
  const int ctype = encoding->property_name_to_ctype(encoding, const_cast<OnigUChar*>(begin),
                                                     const_cast<OnigUChar*>(begin) + std::strlen(name));
  ZF_CHECK(ctype >= 0);
  OnigCodePoint single_bytes = 0;
  const OnigCodePoint* ranges = nullptr;
  ZF_CHECK(encoding->get_ctype_code_range(static_cast<OnigCtype>(ctype), &single_bytes, &ranges) == ONIG_NORMAL);
  for (OnigCodePoint i = 0; i < ranges[0]; ++i) {
    for (OnigCodePoint code = ranges[1 + 2 * i]; code <= ranges[2 + 2 * i] && code < kCodes; ++code) {
      classes[code] |= bits;
    }
  }
}

const Bits* Classes() {
  static const std::vector<Bits>& classes = *[] {
    auto* made = new std::vector<Bits>(kCodes);
    AddProperty("L", kLetter, *made);
    AddProperty("N", kNumber, *made);
    AddProperty("Space", kSpace, *made);
    for (const char* name : {"Lu", "Lt"}) AddProperty(name, kUpper, *made);
    for (const char* name : {"Lm", "Lo", "M"}) AddProperty(name, kUpper | kLower, *made);
    AddProperty("Ll", kLower, *made);
    AddProperty("M", kMark, *made);
    for (const char* name : {"P", "S"}) AddProperty(name, kSymbol, *made);
    for (uint32_t code = 0x4E00; code <= 0x9FA5; ++code) (*made)[code] |= kEastAsian;
    for (uint32_t code = 0x3040; code <= 0x30FF; ++code) (*made)[code] |= kEastAsian;
    for (const char newline : {'\r', '\n'}) (*made)[static_cast<size_t>(newline)] |= kNewline;
    return made;
  }();
  return classes.data();
}

// A text and the classes of its characters. It ends before the first character whose bits in `fence` are not `inside`;
// there is a character with no class and no bytes.
class View {
 public:
  explicit View(std::string_view text, Bits fence = 0, Bits inside = 0)
      : text_(text), classes_(Classes()), fence_(fence), inside_(inside) {}

  struct One {
    Bits bits;
    uint8_t bytes;
  };
  // Inlined wherever it is used, since most characters are ASCII.
  [[gnu::always_inline]] One At(size_t at) const {
    if (at >= text_.size()) return {0, 0};
    const auto first = static_cast<uint8_t>(text_[at]);
    const One one = first < 0x80 ? One{classes_[first], 1} : Decoded(at);
    return (one.bits & fence_) == inside_ ? one : One{0, 0};
  }
  bool Ends(size_t at) const { return At(at).bytes == 0; }
  bool Is(size_t at, char c) const { return at < text_.size() && text_[at] == c; }

  // The end of the run, from `at` on, of characters that have one of `bits`.
  size_t RunOf(Bits bits, size_t at) const {
    for (One one = At(at); (one.bits & bits) != 0; one = At(at)) at += one.bytes;
    return at;
  }
  // The end of the run, from `at` on, of characters that have none of `bits`.
  size_t RunWithout(Bits bits, size_t at) const {
    for (One one = At(at); one.bytes != 0 && (one.bits & bits) == 0; one = At(at)) at += one.bytes;
    return at;
  }

  // The end of the run of [A-Za-z] from `at` on.
  size_t AsciiLetters(size_t at) const {
    for (One one = At(at); one.bytes == 1 && (one.bits & kLetter) != 0; one = At(at)) ++at;
    return at;
  }

  // 's|'t|'re|'ve|'m|'ll|'d: returns its end if it begins at `at`, else `at`. With `any_case` the long s matches s.
  size_t Contraction(size_t at, bool any_case) const {
    if (!Is(at, '\'') || at + 1 >= text_.size()) return at;
    const auto letter = [&](size_t i) {
      if (i >= text_.size()) return '\0';
      const char c = text_[i];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter(at + 1), second = letter(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'l' && second == 'l') return at + 3;
    return any_case && text_.substr(at + 1, 2) == "\xC5\xBF" ? at + 3 : at;
  }

  // \s+(?!\S)|\s+: returns the end of a match at white space: the end of the text if nothing else follows, else before
  // the last white-space character, unless that is the only one.
  size_t Spaces(size_t at) const {
    size_t end = at, last = at;
    for (One one = At(at); (one.bits & kSpace) != 0; one = At(end)) {
      last = end;
      end += one.bytes;
    }
    return Ends(end) || last == at ? end : last;
  }
  // \s*[\r\n]+|\s+(?!\S)|\s+: returns the end behind the white space's last newline, if it has one.
  size_t Lines(size_t at, bool all_at_end) const {
    size_t end = at, behind_newline = at;
    for (One one = At(at); (one.bits & kSpace) != 0; one = At(end)) {
      end += one.bytes;
      if ((one.bits & kNewline) != 0) behind_newline = end;
    }
    if (all_at_end && Ends(end)) return end;
    return behind_newline > at ? behind_newline : Spaces(at);
  }

 private:
  // A character of several bytes.
  [[gnu::noinline]] One Decoded(size_t at) const {
    const auto first = static_cast<uint8_t>(text_[at]);
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text_[at + i]) & 0x3F); };
    if (first < 0xE0) return {classes_[(first & 0x1Fu) << 6 | byte(1)], 2};
    if (first < 0xF0) return {classes_[(first & 0x0Fu) << 12 | byte(1) << 6 | byte(2)], 3};
    return {classes_[(first & 0x07u) << 18 | byte(1) << 12 | byte(2) << 6 | byte(3)], 4};
  }

  const std::string_view text_;
  const Bits* const classes_;
  const Bits fence_, inside_;
};

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t Gpt2Word(const View& view, size_t at) {
  if (const size_t end = view.Contraction(at, /*any_case=*/false); end > at) return end;
  const size_t word = at + (view.Is(at, ' ') ? 1 : 0);
  const View::One first = view.At(word);
  if ((first.bits & kLetter) != 0) return view.RunOf(kLetter, word);
  if ((first.bits & kNumber) != 0) return view.RunOf(kNumber, word);
  if (first.bytes != 0 && (first.bits & kSpace) == 0) return view.RunWithout(kLetter | kNumber | kSpace, word);
  return view.Spaces(at);
}

struct LineRules {
  int digits;       // \p{N}{1,digits}
  bool all_at_end;  // \s++$ before the other white space
};

// The common alternatives of cl100k, Qwen and o200k, at a character that begins no word of letters: \p{N}{1,3}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+. With `slash` (o200k) a slash behind punctuation is taken like a
// newline.
size_t NumberMarkOrSpace(const View& view, size_t at, const LineRules& rules, bool slash) {
  const View::One first = view.At(at);
  if ((first.bits & kNumber) != 0) {
    size_t end = at;
    for (int i = 0; i < rules.digits && (view.At(end).bits & kNumber) != 0; ++i) end += view.At(end).bytes;
    return end;
  }
  const size_t mark = at + (view.Is(at, ' ') ? 1 : 0);
  size_t end = view.RunWithout(kLetter | kNumber | kSpace, mark);
  if (end == mark) return view.Lines(at, rules.all_at_end);
  while ((view.At(end).bits & kNewline) != 0 || (slash && view.Is(end, '/'))) ++end;
  return end;
}

// (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|...
size_t LineWord(const View& view, size_t at, const LineRules& rules) {
  if (const size_t end = view.Contraction(at, /*any_case=*/true); end > at) return end;
  const View::One first = view.At(at);
  if ((first.bits & kLetter) != 0) return view.RunOf(kLetter, at);
  if ((first.bits & (kNewline | kNumber)) == 0) {
    const size_t word = at + first.bytes, end = view.RunOf(kLetter, word);
    if (end > word) return end;
  }
  return NumberMarkOrSpace(view, at, rules, /*slash=*/false);
}

// [upper]*[lower]+: returns its end if it matches at `at`, else `at`. If nothing in [lower] follows the first class,
// that class gives back characters that are in both classes, so that the word ends with the last of them.
size_t UppersThenLowers(const View& view, size_t at) {
  size_t end = at, behind_both = at;
  for (View::One one = view.At(end); (one.bits & kUpper) != 0; one = view.At(end)) {
    end += one.bytes;
    if ((one.bits & kLower) != 0) behind_both = end;
  }
  const size_t lowers = view.RunOf(kLower, end);
  return lowers > end ? lowers : behind_both;
}

// [upper]+[lower]*
size_t UppersMaybeLowers(const View& view, size_t at) {
  const size_t end = view.RunOf(kUpper, at);
  return end == at ? at : view.RunOf(kLower, end);
}

size_t O200kWord(const View& view, size_t at) {
  const View::One first = view.At(at);
  const bool may_prefix = (first.bits & (kNewline | kLetter | kNumber)) == 0;
  for (size_t (*const letters)(const View&, size_t) : {UppersThenLowers, UppersMaybeLowers}) {
    if (may_prefix) {
      const size_t word = at + first.bytes, end = letters(view, word);
      if (end > word) return view.Contraction(end, /*any_case=*/true);
    }
    const size_t end = letters(view, at);
    if (end > at) return view.Contraction(end, /*any_case=*/true);
  }
  return NumberMarkOrSpace(view, at, {3, false}, /*slash=*/true);
}

// [!-/:-@[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+, or
// the characters up to the next match. No match begins at a character of another class unless a letter or a mark
// follows it.
size_t DeepSeekWord(const View& view, size_t at) {
  constexpr Bits kWord = kLetter | kMark;
  const View::One first = view.At(at);
  if (first.bytes == 1 && (first.bits & kSymbol) != 0) {
    if (const size_t end = view.AsciiLetters(at + 1); end > at + 1) return end;
  }
  if ((first.bits & kWord) != 0) return view.RunOf(kWord, at);
  if ((first.bits & (kNewline | kSymbol)) == 0) {
    const size_t word = at + first.bytes, end = view.RunOf(kWord, word);
    if (end > word) return end;
  }
  const size_t mark = at + (view.Is(at, ' ') ? 1 : 0), behind_marks = view.RunOf(kSymbol, mark);
  if (behind_marks > mark) return view.RunOf(kNewline, behind_marks);
  if ((first.bits & kSpace) != 0) return view.Lines(at, /*all_at_end=*/false);
  size_t end = at + first.bytes;
  for (View::One one = view.At(end); one.bytes != 0 && (one.bits & (kWord | kSymbol | kSpace)) == 0;
       one = view.At(end)) {
    if ((view.At(end + one.bytes).bits & kWord) != 0) break;
    end += one.bytes;
  }
  return end;
}

// Three expressions, each of which divides what the one before it has left: \p{N}{1,3}, [一-龥぀-ゟ゠-ヿ]+, and
// DeepSeekWord's.
size_t DeepSeekPiece(std::string_view text, size_t at) {
  constexpr Bits kFence = kNumber | kEastAsian;
  const Bits first = View(text).At(at).bits & kFence;
  const View piece(text, kFence, first);
  if (first != kNumber) return DeepSeekWord(piece, at);
  size_t end = at;
  for (int i = 0; i < 3; ++i) end += piece.At(end).bytes;
  return end;
}

// Finds words in blocks where the text is ASCII, and one by one elsewhere.
template <typename Word>
size_t Ends(std::string_view text, size_t at, std::span<size_t> ends, BlockScanner block, const Word& word) {
  constexpr auto ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
  size_t count = 0;
  while (count < ends.size() && at < text.size()) {
    uint64_t places = ascii(text[at]) && ascii(text[std::min(at + 1, text.size() - 1)]) ? block(text, at) : 0;
    if (places == 0) {
      ends[count++] = at = word(at);
      continue;
    }
    const size_t begin = at;
    for (; places != 0 && count < ends.size(); places &= places - 1) {
      ends[count++] = at = begin + static_cast<size_t>(std::countr_zero(places));
    }
  }
  return count;
}

size_t ScanQwen(std::string_view text, size_t at, std::span<size_t> ends) {
  return Ends(text, at, ends, QwenBlock, [&](size_t begin) { return LineWord(View(text), begin, {1, false}); });
}

size_t ScanDeepSeek(std::string_view text, size_t at, std::span<size_t> ends) {
  return Ends(text, at, ends, DeepSeekBlock, [&](size_t begin) { return DeepSeekPiece(text, begin); });
}

struct ScannerRow {
  std::vector<std::string> expressions;
  Scanner scanner;
};

// The expressions as in cuts.cc.
const std::vector<ScannerRow>& Scanners() {
  static const auto& rows = *new std::vector<ScannerRow>{
      {{R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}, ScanGpt2},
      {{R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
       ScanCl100k},
      {{R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
       ScanQwen},
      {{R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
        R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
       ScanO200k},
      {{R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
        "?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
       ScanDeepSeek},
  };
  return rows;
}

}  // namespace

size_t ScanGpt2(std::string_view text, size_t at, std::span<size_t> ends) {
  return Ends(text, at, ends, Gpt2Block, [&](size_t begin) { return Gpt2Word(View(text), begin); });
}
size_t ScanCl100k(std::string_view text, size_t at, std::span<size_t> ends) {
  return Ends(text, at, ends, Cl100kBlock, [&](size_t begin) { return LineWord(View(text), begin, {3, false}); });
}
size_t ScanTiktokenCl100k(std::string_view text, size_t at, std::span<size_t> ends) {
  return Ends(text, at, ends, Cl100kBlock, [&](size_t begin) { return LineWord(View(text), begin, {3, true}); });
}
size_t ScanO200k(std::string_view text, size_t at, std::span<size_t> ends) {
  return Ends(text, at, ends, O200kBlock, [&](size_t begin) { return O200kWord(View(text), begin); });
}

Scanner ScannerOf(std::span<const std::string> expressions) {
  for (const ScannerRow& row : Scanners()) {
    if (std::ranges::equal(row.expressions, expressions)) return row.scanner;
  }
  return nullptr;
}

}  // namespace zerofleet::text
