// A chat template as tokens: text between tags, and the contents of tags. White space around tags is removed as
// transformers does (trim_blocks, lstrip_blocks), and as `-` and `+` say.
#ifndef ZEROFLEET_WORKER_TEXT_JINJA_LEXER_H_
#define ZEROFLEET_WORKER_TEXT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace zerofleet::text::jinja {

struct Token {
  enum class Kind : uint8_t {
    kText,        // between tags
    kBeginPrint,  // {{
    kEndPrint,    // }}
    kBeginBlock,  // {%
    kEndBlock,    // %}
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind;
  std::string text;  // a string has neither its quotation marks nor escapes
  int line;
};

// InvalidArgument, naming the line, if `source` is not a template.
absl::StatusOr<std::vector<Token>> Lex(std::string_view source);

// InvalidArgument: "line N: what".
absl::Status FaultAt(int line, const std::string& what);

}  // namespace zerofleet::text::jinja

#endif  // ZEROFLEET_WORKER_TEXT_JINJA_LEXER_H_
