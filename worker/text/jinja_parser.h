// A chat template as a tree of statements and the expressions in them. Anything outside the supported subset is refused
// with its line.
#ifndef ZEROFLEET_WORKER_TEXT_JINJA_PARSER_H_
#define ZEROFLEET_WORKER_TEXT_JINJA_PARSER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/jinja_value.h"

namespace zerofleet::text::jinja {

struct Node;
using NodePtr = std::unique_ptr<Node>;

enum class NodeKind : uint8_t {
  // Statements. A body's children are its statements in order.
  kBody,
  kText,      // text
  kPrint,     // an expression
  kIf,        // condition, body, condition, body, ..., and an optional last body
  kFor,       // target, iterated, condition or null, body, body of `else` or null
  kSet,       // target, value
  kSetBlock,  // target, body
  kMacro,     // text: its name; parameters (kName, with a child if there is a default), then the body
  kBreak,
  kContinue,
  // Expressions.
  kConstant,   // value
  kName,       // text
  kList,       // elements; a tuple is one
  kDict,       // key, value, key, value, ...
  kAttribute,  // text: its name; the value
  kItem,       // value, index
  kSlice,      // value, begin, end, step; each of the last three may be null
  kCall,       // what is called, arguments
  kKeyword,    // an argument; text: its name
  kFilter,     // text: its name; value, arguments
  kTest,       // text: its name; value, arguments
  kNot,
  kNegative,
  kAnd,
  kOr,
  kBinary,   // text: the operator
  kCompare,  // text: the operators, each followed by a space; the operands, one more
  kChoice,   // value, condition, and the optional other value
};

struct Node {
  NodeKind kind;
  int line;
  int depth;  // of the tree below, this node included
  std::string text;
  std::vector<NodePtr> children;
  Value value;
};

inline constexpr int64_t kMaxTemplateBytes = 1 << 20;

absl::StatusOr<NodePtr> ParseTemplate(std::string_view source);

}  // namespace zerofleet::text::jinja

#endif  // ZEROFLEET_WORKER_TEXT_JINJA_PARSER_H_
