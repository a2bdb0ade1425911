// From classes of characters to where words begin; see ascii_blocks.h.
#include "worker/text/ascii_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/text/ascii_blocks.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zerofleet::text::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kBlock = 64;
using Bits = uint64_t;  // bit i is about the block's character i

constexpr Bits Below(size_t count) { return count >= kBlock ? ~Bits{0} : (Bits{1} << count) - 1; }

struct Classes {
  Bits upper = 0, lower = 0, digits = 0, spaces = 0, newlines = 0, blanks = 0, apostrophes = 0, slashes = 0;
  Bits others = 0;  // not ASCII, or control characters that are not white space
};

HWY_INLINE Classes ClassesOf(const char* block) {
  const hn::CappedTag<uint8_t, kBlock> d;
  Classes classes;
  for (size_t at = 0; at < kBlock; at += hn::Lanes(d)) {
    const auto characters = hn::LoadU(d, reinterpret_cast<const uint8_t*>(block) + at);
    const auto add = [&](Bits& bits, auto mask) HWY_ATTR {
      uint8_t bytes[8] = {};
      hn::StoreMaskBits(d, mask, bytes);
      Bits found;
      std::memcpy(&found, bytes, sizeof found);
      bits |= found << at;
    };
    // Whether characters lie in [first, first + count).
    const auto among = [&](uint8_t first, uint8_t count)
                           HWY_ATTR { return hn::Lt(hn::Sub(characters, hn::Set(d, first)), hn::Set(d, count)); };
    const auto is = [&](char one) HWY_ATTR { return hn::Eq(characters, hn::Set(d, static_cast<uint8_t>(one))); };
    const auto spaces = hn::Or(is(' '), among('\t', 5));
    add(classes.upper, among('A', 26));
    add(classes.lower, among('a', 26));
    add(classes.digits, among('0', 10));
    add(classes.spaces, spaces);
    add(classes.newlines, hn::Or(is('\n'), is('\r')));
    add(classes.blanks, is(' '));
    add(classes.apostrophes, is('\''));
    add(classes.slashes, is('/'));
    add(classes.others, hn::Not(hn::Or(spaces, among('!', 94))));
  }
  return classes;
}

enum class Contractions { kNone, kWords, kWordsAnyCase, kEndsAnyCase };

struct Rules {
  int digits;                 // the most of a word; 0: any number, behind a blank if there is one
  bool lines;                 // newlines behind marks belong to them, and end white space
  bool any_prefix;            // before letters any one character that is no newline, letter or digit, else a blank
  Contractions contractions;  // words of their own, or ends of words
  bool cases = false;         // an upper-case letter behind a lower-case one begins a word
  bool slashes = false;       // slashes behind newlines behind marks belong to them
  bool digits_apart = false;  // white space before a digit is one word
};

// The length of 's|'t|'re|'ve|'m|'ll|'d at the beginning of `text`, 0 if there is none.
HWY_INLINE size_t Contraction(std::string_view text, bool any_case) {
  const auto letter = [&](size_t i) { return any_case ? text[i] | 0x20 : text[i]; };
  const int first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  return first == 'l' && second == 'l' ? 3 : 0;
}

template <Rules rules>
HWY_INLINE uint64_t Block(std::string_view text, size_t at) {
  char padded[kBlock];
  const char* block = text.data() + at;
  if (text.size() - at < kBlock) {
    std::memset(padded, 0, kBlock);  // zeros are of the others
    std::memcpy(padded, block, text.size() - at);
    block = padded;
  }
  const Classes classes = ClassesOf(block);
  const auto count = static_cast<size_t>(std::countr_zero(classes.others));
  if (count < 2) return 0;
  const Bits valid = Below(count);
  Bits letters = (classes.upper | classes.lower) & valid, spaces = classes.spaces & valid;
  const Bits digits = classes.digits & valid, blanks = classes.blanks & valid;
  Bits marks = valid & ~(letters | digits | spaces);
  size_t last = count - 1;  // no word is known to begin behind it
  Bits starts = 0;

  if constexpr (rules.contractions != Contractions::kNone) {
    constexpr bool kEnds = rules.contractions == Contractions::kEndsAnyCase;
    Bits found = classes.apostrophes & (kEnds ? letters << 1 : marks & ~(marks << 1 | blanks << 1) & letters >> 1);
    for (found &= valid; found != 0; found &= found - 1) {
      const auto apostrophe = static_cast<size_t>(std::countr_zero(found));
      if (apostrophe + 3 > count) {
        last = std::min(last, kEnds ? apostrophe - 1 : apostrophe);
        break;
      }
      const size_t length = Contraction({block + apostrophe, 3}, rules.contractions != Contractions::kWords);
      const Bits taken = Below(length) << apostrophe;
      marks &= ~taken;
      letters &= ~taken;
      if (kEnds) found &= letters << 1 | Bits{1} << apostrophe;
      if (!kEnds && length > 0) starts |= Bits{1} << apostrophe;
    }
  }

  if constexpr (rules.lines) {
    // What marks take behind them: a carry runs from the first newline to the end of its run.
    const Bits takes = (classes.newlines | (rules.slashes ? classes.slashes : 0)) & valid;
    Bits first = classes.newlines & valid & marks << 1;
    first &= ~(takes + first);  // of several in one run the first
    const Bits taken = takes & ~(takes + first);
    marks &= ~taken;
    spaces &= ~taken;
  }
  const Bits newlines = rules.lines ? classes.newlines & spaces : 0;
  const Bits rest = spaces & ~newlines;
  starts |= spaces & ~(spaces << 1);
  if constexpr (rules.lines) {
    Bits behind = rest & newlines << 1;
    // White space is one word to its last newline.
    for (Bits again = (rest + behind) & newlines; again != 0; again &= again - 1) {
      const Bits before = behind & Below(static_cast<size_t>(std::countr_zero(again)));
      behind &= ~std::bit_floor(before);
    }
    starts |= behind;
  }
  Bits ends = rest & ~(spaces >> 1);  // the last of white space, which joins what follows, or is a word of its own
  if constexpr (rules.digits_apart) ends &= ~(digits >> 1);
  starts |= ends;
  const Bits behind_blank = (ends & blanks) << 1;

  const Bits first_marks = marks & ~(marks << 1 | behind_blank);
  starts |= first_marks;
  const Bits prefixes = rules.any_prefix ? (ends | first_marks) << 1 : behind_blank;
  starts |= letters & ~(letters << 1 | prefixes);
  if constexpr (rules.cases) starts |= letters & classes.upper & (letters & classes.lower) << 1;

  const Bits first_digits = digits & ~(digits << 1);
  if constexpr (rules.digits == 0) {
    starts |= first_digits & ~behind_blank;
  } else if constexpr (rules.digits == 1) {
    starts |= digits;
  } else {
    const Bits three_more = digits & digits << 1 & digits << 2;
    for (Bits next = first_digits; next != 0; next = next << 3 & three_more) starts |= next;
  }

  if (spaces >> last & 1) last = static_cast<size_t>(std::bit_width(~spaces & Below(last)));
  return starts & Below(last + 1) & ~Bits{1};
}

uint64_t Gpt2(std::string_view text, size_t at) {
  return Block<Rules{.digits = 0, .lines = false, .any_prefix = false, .contractions = Contractions::kWords}>(text, at);
}
uint64_t Cl100k(std::string_view text, size_t at) {
  return Block<Rules{.digits = 3, .lines = true, .any_prefix = true, .contractions = Contractions::kWordsAnyCase}>(text,
                                                                                                                   at);
}
uint64_t Qwen(std::string_view text, size_t at) {
  return Block<Rules{.digits = 1, .lines = true, .any_prefix = true, .contractions = Contractions::kWordsAnyCase}>(text,
                                                                                                                   at);
}
uint64_t O200k(std::string_view text, size_t at) {
  return Block<Rules{.digits = 3,
                     .lines = true,
                     .any_prefix = true,
                     .contractions = Contractions::kEndsAnyCase,
                     .cases = true,
                     .slashes = true}>(text, at);
}
uint64_t DeepSeek(std::string_view text, size_t at) {
  return Block<Rules{
      .digits = 3, .lines = true, .any_prefix = true, .contractions = Contractions::kNone, .digits_apart = true}>(text,
                                                                                                                  at);
}

}  // namespace zerofleet::text::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace zerofleet::text {

HWY_EXPORT(Gpt2);
HWY_EXPORT(Cl100k);
HWY_EXPORT(Qwen);
HWY_EXPORT(O200k);
HWY_EXPORT(DeepSeek);

uint64_t Gpt2Block(std::string_view text, size_t at) { return HWY_DYNAMIC_DISPATCH(Gpt2)(text, at); }
uint64_t Cl100kBlock(std::string_view text, size_t at) { return HWY_DYNAMIC_DISPATCH(Cl100k)(text, at); }
uint64_t QwenBlock(std::string_view text, size_t at) { return HWY_DYNAMIC_DISPATCH(Qwen)(text, at); }
uint64_t O200kBlock(std::string_view text, size_t at) { return HWY_DYNAMIC_DISPATCH(O200k)(text, at); }
uint64_t DeepSeekBlock(std::string_view text, size_t at) { return HWY_DYNAMIC_DISPATCH(DeepSeek)(text, at); }

}  // namespace zerofleet::text

#endif  // HWY_ONCE
