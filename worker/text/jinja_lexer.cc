// One walk through the source; see jinja_lexer.h.
#include "worker/text/jinja_lexer.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "worker/text/unicode.h"

namespace zerofleet::text::jinja {
namespace {

constexpr std::string_view kOperators[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
                                           ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ".", ",", ":", "|", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      const size_t tag = NextTag();
      LexText(tag);
      if (at_ < source_.size()) ZF_RETURN_IF_ERROR(LexTag());
    }
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  size_t NextTag() const {
    for (size_t tag = source_.find('{', at_); tag != std::string_view::npos; tag = source_.find('{', tag + 1)) {
      const char kind = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (kind == '{' || kind == '%' || kind == '#') return tag;
    }
    return source_.size();
  }

  char After(size_t distance) const { return at_ + distance < source_.size() ? source_[at_ + distance] : '\0'; }

  void Advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<int64_t>(at_),
                                         source_.begin() + static_cast<int64_t>(at_ + bytes), '\n'));
    at_ += bytes;
  }

  void Add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Reads the text up to the tag at `end`, without the white space that the tag removes.
  void LexText(size_t end) {
    std::string_view text = source_.substr(at_, end - at_);
    const char sign = end + 2 < source_.size() ? source_[end + 2] : '\0';
    if (sign == '-') {
      while (!text.empty() && absl::ascii_isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
    } else if (end < source_.size() && sign != '+' && source_[end + 1] != '{') {
      const size_t last_line = text.rfind('\n') + 1;  // 0 if there is no newline
      const bool blank = text.find_first_not_of(" \t", last_line) == std::string_view::npos;
      if (blank && (last_line > 0 || line_begins_)) text = text.substr(0, last_line);
    }
    if (!text.empty()) Add(Token::Kind::kText, std::string(text));
    Advance(end - at_);
  }

  absl::Status LexTag() {
    const char kind = source_[at_ + 1];
    const int line = line_;
    Advance(2);
    if (After(0) == '-' || (After(0) == '+' && kind != '{')) Advance(1);
    if (kind == '#') return LexComment(line);
    Add(kind == '{' ? Token::Kind::kBeginPrint : Token::Kind::kBeginBlock, "");
    open_.clear();
    while (at_ < source_.size()) {
      if (open_.empty() && EndTag(kind == '{' ? "}}" : "%}")) {
        tokens_.push_back({kind == '{' ? Token::Kind::kEndPrint : Token::Kind::kEndBlock, "", line});
        return absl::OkStatus();
      }
      if (absl::ascii_isspace(static_cast<unsigned char>(After(0)))) {
        Advance(1);
        continue;
      }
      ZF_RETURN_IF_ERROR(LexToken());
    }
    return FaultAt(line, "a tag does not end");
  }

  absl::Status LexComment(int line) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return FaultAt(line, "a comment does not end");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    Advance(end - at_ - (sign == '-' || sign == '+' ? 1 : 0));
    EndTag("#}");
    return absl::OkStatus();
  }

  // If the end of a tag is here, reads it and the white space behind it that it removes.
  bool EndTag(std::string_view end) {
    const bool strips = After(0) == '-', keeps = After(0) == '+' && end != "}}";
    const size_t sign = strips || keeps ? 1 : 0;
    if (!source_.substr(std::min(at_ + sign, source_.size())).starts_with(end)) return false;
    Advance(sign + 2);
    if (strips) {
      while (absl::ascii_isspace(static_cast<unsigned char>(After(0)))) Advance(1);
    } else if (!keeps && end != "}}" && After(0) == '\n') {
      Advance(1);
    }
    line_begins_ = source_[at_ - 1] == '\n';
    return true;
  }

  absl::Status LexToken() {
    const char c = After(0);
    if (c == '"' || c == '\'') return LexString(c);
    const auto in_name = [](char x) { return absl::ascii_isalnum(static_cast<unsigned char>(x)) || x == '_'; };
    if (absl::ascii_isdigit(static_cast<unsigned char>(c))) return LexNumber();
    if (in_name(c)) {
      size_t length = 1;
      while (in_name(After(length))) ++length;
      Add(Token::Kind::kName, std::string(source_.substr(at_, length)));
      Advance(length);
      return absl::OkStatus();
    }
    for (const std::string_view op : kOperators) {
      if (!source_.substr(at_).starts_with(op)) continue;
      if (op == "(" || op == "[" || op == "{") open_ += c;
      if (op == ")" || op == "]" || op == "}") {
        if (open_.empty()) return FaultAt(line_, absl::StrCat("a ", std::string(op), " that nothing opens"));
        open_.pop_back();
      }
      Add(Token::Kind::kOperator, std::string(op));
      Advance(op.size());
      return absl::OkStatus();
    }
    return FaultAt(line_, absl::StrCat("a character that means nothing here: ", std::string(1, c)));
  }

  absl::Status LexNumber() {
    const auto digits = [this](size_t from) {
      size_t end = from;
      while (absl::ascii_isdigit(static_cast<unsigned char>(After(end))) || After(end) == '_') ++end;
      return end;
    };
    size_t length = digits(0);
    bool real = false;
    if (After(length) == '.' && absl::ascii_isdigit(static_cast<unsigned char>(After(length + 1)))) {
      length = digits(length + 1);
      real = true;
    }
    if (After(length) == 'e' || After(length) == 'E') {
      const size_t sign = After(length + 1) == '-' || After(length + 1) == '+' ? 1 : 0;
      if (absl::ascii_isdigit(static_cast<unsigned char>(After(length + 1 + sign)))) {
        length = digits(length + 1 + sign);
        real = true;
      }
    }
    Add(real ? Token::Kind::kFloat : Token::Kind::kInteger,
        absl::StrReplaceAll(std::string(source_.substr(at_, length)), {{"_", ""}}));
    Advance(length);
    return absl::OkStatus();
  }

  absl::Status LexString(char quote) {
    const int line = line_;
    std::string text;
    Advance(1);
    while (at_ < source_.size() && After(0) != quote) {
      if (After(0) == '\\') {
        LexEscape(text);
      } else {
        text += After(0);
        Advance(1);
      }
    }
    if (at_ >= source_.size()) return FaultAt(line, "a string does not end");
    Advance(1);
    tokens_.push_back({Token::Kind::kString, std::move(text), line});
    return absl::OkStatus();
  }

  // Reads one of Python's escapes; anything else stays as it is.
  void LexEscape(std::string& text) {
    constexpr std::string_view kFrom = "nrtbfav0\\'\"", kTo("\n\r\t\b\f\a\v\0\\'\"", 11);
    const char c = After(1);
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    if (digits > 0 && at_ + 2 + digits <= source_.size()) {
      const char* const first = source_.data() + at_ + 2;
      const auto end = std::from_chars(first, first + digits, code, 16);
      if (end.ec == std::errc() && end.ptr == first + digits && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)) {
        AppendUtf8(code, text);
        Advance(2 + digits);
        return;
      }
    }
    const size_t known = c == '\0' ? std::string_view::npos : kFrom.find(c);
    if (known != std::string_view::npos) {
      text += kTo[known];
    } else if (c != '\n') {
      text += '\\';
      if (at_ + 1 < source_.size()) text += c;
    }
    Advance(std::min<size_t>(2, source_.size() - at_));
  }

  const std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;  // at_ is at the beginning of a line
  std::string open_;         // open brackets of the current tag
  std::vector<Token> tokens_;
};

}  // namespace

absl::Status FaultAt(int line, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

absl::StatusOr<std::vector<Token>> Lex(std::string_view source) {
  std::string text = absl::StrReplaceAll(std::string(source), {{"\r\n", "\n"}, {"\r", "\n"}});
  if (text.ends_with('\n')) text.pop_back();
  return Lexer(text).Run();
}

}  // namespace zerofleet::text::jinja
