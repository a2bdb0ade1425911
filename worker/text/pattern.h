// What Hugging Face's tokenizers call a pattern: a literal text or a regular expression in Oniguruma's syntax.
#ifndef ZEROFLEET_WORKER_TEXT_PATTERN_H_
#define ZEROFLEET_WORKER_TEXT_PATTERN_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace zerofleet::text {

// A part of a text: [begin, end), and whether it matched.
struct Span {
  size_t begin, end;
  bool matched;
};

// Thread-safe.
class Pattern {
 public:
  virtual ~Pattern() = default;
  // Returns `text` as parts, in order and without gaps. `text` must be UTF-8. ResourceExhausted if the search gives up.
  virtual absl::StatusOr<std::vector<Span>> Find(std::string_view text) const = 0;
  // Returns `text` with `content` in the place of each match; errors as Find's.
  virtual absl::StatusOr<std::string> Replace(std::string_view text, std::string_view content) const;
};

std::unique_ptr<Pattern> LiteralPattern(std::string literal);
// InvalidArgument, with Oniguruma's message, for an expression that does not compile.
absl::StatusOr<std::unique_ptr<Pattern>> RegexPattern(const std::string& expression);

}  // namespace zerofleet::text

#endif  // ZEROFLEET_WORKER_TEXT_PATTERN_H_
