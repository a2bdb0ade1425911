// A chat template as tokens: text between tags, and what is within them. Blank space around tags goes as transformers
// has it (trim_blocks, lstrip_blocks), and as `-` and `+` say.
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
  std::string text;  // a string's without its quotation marks and escapes
  int line;
};

// InvalidArgument, naming the line, for what is no template.
absl::StatusOr<std::vector<Token>> Lex(std::string_view source);

// InvalidArgument: "line N: what".
absl::Status FaultAt(int line, const std::string& what);

}  // namespace zerofleet::text::jinja

#endif  // ZEROFLEET_WORKER_TEXT_JINJA_LEXER_H_
