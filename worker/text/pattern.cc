// Literals, and expressions compiled by libonig as the `onig` crate compiles them; see pattern.h.
#include "worker/text/pattern.h"

#include <oniguruma.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/text/unicode.h"

namespace zerofleet::text {
namespace {

void AddSpan(size_t begin, size_t end, size_t& done, std::vector<Span>& spans) {
  if (done < begin) spans.push_back({done, begin, false});
  spans.push_back({begin, end, true});
  done = end;
}

class Literal : public Pattern {
 public:
  explicit Literal(std::string literal) : literal_(std::move(literal)) {}

  absl::StatusOr<std::vector<Span>> Find(std::string_view text) const override {
    std::vector<Span> spans;
    size_t done = 0;
    while (!literal_.empty()) {
      const size_t found = text.find(literal_, done);
      if (found == std::string_view::npos) break;
      AddSpan(found, found + literal_.size(), done, spans);
    }
    if (done < text.size()) spans.push_back({done, text.size(), false});
    return spans;
  }

  // Without the spans, of which a text may have one for each of its spaces.
  absl::StatusOr<std::string> Replace(std::string_view text, std::string_view content) const override {
    std::string replaced;
    replaced.reserve(text.size() + text.size() / 2);
    size_t done = 0;
    while (!literal_.empty()) {
      const size_t found = text.find(literal_, done);
      if (found == std::string_view::npos) break;
      replaced.append(text.substr(done, found - done)).append(content);
      done = found + literal_.size();
    }
    replaced.append(text.substr(done));
    return replaced;
  }

 private:
  const std::string literal_;
};

std::string OnigMessage(int code, OnigErrorInfo* info) {
  OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length =
      info == nullptr ? onig_error_code_to_str(message, code) : onig_error_code_to_str(message, code, info);
  return std::string(reinterpret_cast<const char*>(message), length);
}

struct FreeRegion {
  void operator()(OnigRegion* region) const { onig_region_free(region, 1); }
};

class Regex : public Pattern {
 public:
  explicit Regex(OnigRegex regex) : regex_(regex) {}
  ~Regex() override { onig_free(regex_); }

  absl::StatusOr<std::vector<Span>> Find(std::string_view text) const override {
    const std::unique_ptr<OnigRegion, FreeRegion> region(onig_region_new());
    const auto* begin = reinterpret_cast<const OnigUChar*>(text.data());
    const OnigUChar* end = begin + text.size();
    std::vector<Span> spans;
    size_t done = 0, from = 0;
    bool matched_before = false;
    size_t last_end = 0;
    while (from <= text.size()) {
      const int at = onig_search(regex_, begin, end, begin + from, end, region.get(), ONIG_OPTION_NONE);
      if (at == ONIG_MISMATCH) break;
      if (at < 0) return absl::ResourceExhaustedError(absl::StrCat("regular expression: ", OnigMessage(at, nullptr)));
      const size_t match_begin = region->beg[0], match_end = region->end[0];
      if (match_begin == match_end && matched_before && match_end == last_end) {
        // An empty match directly behind another match does not count.
        from += from < text.size() ? CharacterAt(text, from).bytes : 1;
        continue;
      }
      matched_before = true;
      from = last_end = match_end;
      AddSpan(match_begin, match_end, done, spans);
    }
    if (done < text.size()) spans.push_back({done, text.size(), false});
    return spans;
  }

 private:
  const OnigRegex regex_;
};

}  // namespace

absl::StatusOr<std::string> Pattern::Replace(std::string_view text, std::string_view content) const {
  ZF_ASSIGN_OR_RETURN(const std::vector<Span> spans, Find(text));
  std::string replaced;
  for (const Span& span : spans) {
    replaced.append(span.matched ? content : text.substr(span.begin, span.end - span.begin));
  }
  return replaced;
}

std::unique_ptr<Pattern> LiteralPattern(std::string literal) { return std::make_unique<Literal>(std::move(literal)); }

absl::StatusOr<std::unique_ptr<Pattern>> RegexPattern(const std::string& expression) {
  // Before several threads may call onig_new at once, the library must be initialised.
  static const int initialised = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1);
  }();
  if (initialised != ONIG_NORMAL) return absl::InternalError("libonig cannot be initialised");
  OnigRegex regex = nullptr;
  OnigErrorInfo info;
  const auto* begin = reinterpret_cast<const OnigUChar*>(expression.data());
  const int code = onig_new(&regex, begin, begin + expression.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                            ONIG_SYNTAX_DEFAULT, &info);
  if (code != ONIG_NORMAL) {
    return absl::InvalidArgumentError(absl::StrCat("regular expression: ", OnigMessage(code, &info)));
  }
  return std::make_unique<Regex>(regex);
}

}  // namespace zerofleet::text
