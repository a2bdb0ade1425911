// Recursive descent, in Jinja's order of operators; see jinja_parser.h.
#include "worker/text/jinja_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/text/jinja_lexer.h"

namespace zerofleet::text::jinja {
namespace {

// The greatest depth of the tree, so that neither parsing nor running nor destroying it overflows the stack.
constexpr int kDeepestTree = 150;

using Kind = Token::Kind;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<NodePtr> Run() {
    ZF_ASSIGN_OR_RETURN(NodePtr body, ParseBody({}));
    if (Here().kind != Kind::kEnd) return Unexpected();
    return body;
  }

 private:
  using Names = std::vector<std::string_view>;

  // --- Tokens

  const Token& Here() const { return tokens_[at_]; }
  const Token& Next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token Take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool IsOperator(std::string_view op) const { return Here().kind == Kind::kOperator && Here().text == op; }
  bool IsName(std::string_view name) const { return Here().kind == Kind::kName && Here().text == name; }
  bool Skip(std::string_view op) { return IsOperator(op) && (Take(), true); }
  bool SkipName(std::string_view name) { return IsName(name) && (Take(), true); }

  absl::Status Unexpected() const {
    const Token& token = Here();
    switch (token.kind) {
      case Kind::kEnd: return FaultAt(token.line, "the template ends too early");
      case Kind::kEndPrint:
      case Kind::kEndBlock: return FaultAt(token.line, "a tag ends too early");
      case Kind::kText:
      case Kind::kBeginPrint:
      case Kind::kBeginBlock: return FaultAt(token.line, "a tag is not expected here");
      default: return FaultAt(token.line, absl::StrCat("\"", token.text, "\" is not expected here"));
    }
  }
  absl::Status Expect(std::string_view op) { return Skip(op) ? absl::OkStatus() : Unexpected(); }
  absl::Status ExpectName(std::string_view name) { return SkipName(name) ? absl::OkStatus() : Unexpected(); }
  absl::Status ExpectEndBlock() {
    if (Here().kind != Kind::kEndBlock) return Unexpected();
    Take();
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> TakeName() {
    if (Here().kind != Kind::kName) return Unexpected();
    return Take().text;
  }

  // --- Nodes

  NodePtr Make(NodeKind kind, std::string text = "") const {
    return std::make_unique<Node>(Node{kind, Here().line, 1, std::move(text), {}, {}});
  }
  // A null child is one that was left out.
  absl::Status AddChild(Node& node, NodePtr child) const {
    if (child != nullptr) node.depth = std::max(node.depth, child->depth + 1);
    if (node.depth > kDeepestTree) return FaultAt(node.line, "is nested too deeply");
    node.children.push_back(std::move(child));
    return absl::OkStatus();
  }
  template <typename... Children>
  absl::StatusOr<NodePtr> Join(NodePtr node, Children... children) const {
    absl::Status status;
    const auto add = [&](NodePtr child) {
      if (status.ok()) status = AddChild(*node, std::move(child));
    };
    (add(std::move(children)), ...);
    if (!status.ok()) return status;
    return node;
  }

  // --- Statements

  // Parses up to a block whose name is one of `ends`, so that the name is next, or to the end of the template.
  absl::StatusOr<NodePtr> ParseBody(const Names& ends) {
    NodePtr body = Make(NodeKind::kBody);
    const Deeper deeper(*this);
    if (level_ > kDeepestTree) return FaultAt(Here().line, "is nested too deeply");
    while (Here().kind != Kind::kEnd) {
      if (Here().kind == Kind::kText) {
        NodePtr text = Make(NodeKind::kText);
        text->value = Value::Of(Take().text);
        ZF_RETURN_IF_ERROR(AddChild(*body, std::move(text)));
      } else if (Here().kind == Kind::kBeginPrint) {
        Take();
        NodePtr print = Make(NodeKind::kPrint);
        ZF_ASSIGN_OR_RETURN(NodePtr value, ParseTuple());
        if (Here().kind != Kind::kEndPrint) return Unexpected();
        Take();
        ZF_RETURN_IF_ERROR(AddChild(*print, std::move(value)));
        ZF_RETURN_IF_ERROR(AddChild(*body, std::move(print)));
      } else {
        Take();
        if (Here().kind != Kind::kName) return Unexpected();
        if (std::find(ends.begin(), ends.end(), Here().text) != ends.end()) return body;
        ZF_ASSIGN_OR_RETURN(NodePtr statement, ParseStatement());
        ZF_RETURN_IF_ERROR(AddChild(*body, std::move(statement)));
      }
    }
    if (!ends.empty()) return FaultAt(body->line, absl::StrCat("a block lacks its ", std::string(ends.back())));
    return body;
  }

  absl::StatusOr<NodePtr> ParseStatement() {
    const Token name = Take();
    if (name.text == "if") return ParseIf();
    if (name.text == "for") return ParseFor();
    if (name.text == "set") return ParseSet();
    if (name.text == "macro") return ParseMacro();
    if (name.text == "break" || name.text == "continue") {
      if (loops_ == 0) return FaultAt(name.line, absl::StrCat(name.text, " outside a loop"));
      NodePtr node = Make(name.text == "break" ? NodeKind::kBreak : NodeKind::kContinue);
      ZF_RETURN_IF_ERROR(ExpectEndBlock());
      return node;
    }
    // transformers uses this block to mark an assistant's tokens.
    if (name.text == "generation") {
      ZF_RETURN_IF_ERROR(ExpectEndBlock());
      ZF_ASSIGN_OR_RETURN(NodePtr body, ParseBody({"endgeneration"}));
      ZF_RETURN_IF_ERROR(EndBody());
      return body;
    }
    return FaultAt(name.line, absl::StrCat("{% ", name.text, " %} is not supported"));
  }

  // Skips the name and the end of the block that ended a body.
  absl::Status EndBody() {
    Take();
    return ExpectEndBlock();
  }

  absl::StatusOr<NodePtr> ParseIf() {
    NodePtr node = Make(NodeKind::kIf);
    for (bool more = true; more;) {
      ZF_ASSIGN_OR_RETURN(NodePtr condition, ParseTuple());
      ZF_RETURN_IF_ERROR(ExpectEndBlock());
      ZF_ASSIGN_OR_RETURN(NodePtr body, ParseBody({"elif", "else", "endif"}));
      ZF_RETURN_IF_ERROR(AddChild(*node, std::move(condition)));
      ZF_RETURN_IF_ERROR(AddChild(*node, std::move(body)));
      more = SkipName("elif");
    }
    if (SkipName("else")) {
      ZF_RETURN_IF_ERROR(ExpectEndBlock());
      ZF_ASSIGN_OR_RETURN(NodePtr body, ParseBody({"endif"}));
      ZF_RETURN_IF_ERROR(AddChild(*node, std::move(body)));
    }
    ZF_RETURN_IF_ERROR(EndBody());
    return node;
  }

  absl::StatusOr<NodePtr> ParseFor() {
    NodePtr node = Make(NodeKind::kFor), condition, otherwise;
    ZF_ASSIGN_OR_RETURN(NodePtr target, ParseTarget(/*attributes=*/false));
    ZF_RETURN_IF_ERROR(ExpectName("in"));
    ZF_ASSIGN_OR_RETURN(NodePtr iterated, ParseTuple(/*choices=*/false));
    if (SkipName("if")) {
      ZF_ASSIGN_OR_RETURN(condition, ParseExpression());
    }
    if (IsName("recursive")) return FaultAt(Here().line, "recursive loops are not supported");
    ZF_RETURN_IF_ERROR(ExpectEndBlock());
    ++loops_;
    ZF_ASSIGN_OR_RETURN(NodePtr body, ParseBody({"else", "endfor"}));
    --loops_;
    if (SkipName("else")) {
      ZF_RETURN_IF_ERROR(ExpectEndBlock());
      ZF_ASSIGN_OR_RETURN(otherwise, ParseBody({"endfor"}));
    }
    ZF_RETURN_IF_ERROR(EndBody());
    return Join(std::move(node), std::move(target), std::move(iterated), std::move(condition), std::move(body),
                std::move(otherwise));
  }

  // Parses names separated by commas; with `attributes`, also an attribute of a namespace.
  absl::StatusOr<NodePtr> ParseTarget(bool attributes) {
    NodePtr names = Make(NodeKind::kList);
    const bool parenthesis = Skip("(");
    do {
      NodePtr name = Make(NodeKind::kName);
      ZF_ASSIGN_OR_RETURN(name->text, TakeName());
      if (attributes && Skip(".")) {
        NodePtr attribute = Make(NodeKind::kAttribute);
        ZF_ASSIGN_OR_RETURN(attribute->text, TakeName());
        return Join(std::move(attribute), std::move(name));
      }
      ZF_RETURN_IF_ERROR(AddChild(*names, std::move(name)));
    } while (Skip(","));
    if (parenthesis) ZF_RETURN_IF_ERROR(Expect(")"));
    if (names->children.size() > 1) return names;
    return std::move(names->children.front());
  }

  absl::StatusOr<NodePtr> ParseSet() {
    ZF_ASSIGN_OR_RETURN(NodePtr target, ParseTarget(/*attributes=*/true));
    if (Skip("=")) {
      ZF_ASSIGN_OR_RETURN(NodePtr value, ParseTuple());
      ZF_RETURN_IF_ERROR(ExpectEndBlock());
      return Join(Make(NodeKind::kSet), std::move(target), std::move(value));
    }
    ZF_RETURN_IF_ERROR(ExpectEndBlock());
    ZF_ASSIGN_OR_RETURN(NodePtr body, ParseBody({"endset"}));
    ZF_RETURN_IF_ERROR(EndBody());
    return Join(Make(NodeKind::kSetBlock), std::move(target), std::move(body));
  }

  absl::StatusOr<NodePtr> ParseMacro() {
    NodePtr node = Make(NodeKind::kMacro);
    ZF_ASSIGN_OR_RETURN(node->text, TakeName());
    ZF_RETURN_IF_ERROR(Expect("("));
    while (!Skip(")")) {
      NodePtr parameter = Make(NodeKind::kName);
      ZF_ASSIGN_OR_RETURN(parameter->text, TakeName());
      if (Skip("=")) {
        ZF_ASSIGN_OR_RETURN(NodePtr preset, ParseExpression());
        ZF_RETURN_IF_ERROR(AddChild(*parameter, std::move(preset)));
      }
      ZF_RETURN_IF_ERROR(AddChild(*node, std::move(parameter)));
      if (!IsOperator(")")) ZF_RETURN_IF_ERROR(Expect(","));
    }
    ZF_RETURN_IF_ERROR(ExpectEndBlock());
    const int loops = std::exchange(loops_, 0);
    ZF_ASSIGN_OR_RETURN(NodePtr body, ParseBody({"endmacro"}));
    loops_ = loops;
    Take();
    if (Here().kind == Kind::kName) Take();  // the block's name may be repeated
    ZF_RETURN_IF_ERROR(ExpectEndBlock());
    return Join(std::move(node), std::move(body));
  }

  // --- Expressions, the weakest operators first

  struct Deeper {
    explicit Deeper(Parser& of) : parser(of) { ++parser.level_; }
    ~Deeper() { --parser.level_; }
    Deeper(const Deeper&) = delete;
    Parser& parser;
  };

  // Parses an expression, or several separated by commas, which make a list.
  absl::StatusOr<NodePtr> ParseTuple(bool choices = true) {
    ZF_ASSIGN_OR_RETURN(NodePtr first, choices ? ParseExpression() : ParseOr());
    if (!IsOperator(",")) return first;
    NodePtr list = Make(NodeKind::kList);
    ZF_RETURN_IF_ERROR(AddChild(*list, std::move(first)));
    while (Skip(",")) {
      if (Here().kind == Kind::kEndBlock || Here().kind == Kind::kEndPrint || IsOperator(")")) break;
      ZF_ASSIGN_OR_RETURN(NodePtr next, choices ? ParseExpression() : ParseOr());
      ZF_RETURN_IF_ERROR(AddChild(*list, std::move(next)));
    }
    return list;
  }

  absl::StatusOr<NodePtr> ParseExpression() {
    const Deeper deeper(*this);
    if (level_ > kDeepestTree) return FaultAt(Here().line, "is nested too deeply");
    ZF_ASSIGN_OR_RETURN(NodePtr value, ParseOr());
    while (SkipName("if")) {
      NodePtr choice = Make(NodeKind::kChoice);
      ZF_ASSIGN_OR_RETURN(NodePtr condition, ParseOr());
      ZF_RETURN_IF_ERROR(AddChild(*choice, std::move(value)));
      ZF_RETURN_IF_ERROR(AddChild(*choice, std::move(condition)));
      if (SkipName("else")) {
        ZF_ASSIGN_OR_RETURN(NodePtr other, ParseExpression());
        ZF_RETURN_IF_ERROR(AddChild(*choice, std::move(other)));
      }
      value = std::move(choice);
    }
    return value;
  }

  absl::StatusOr<NodePtr> ParseOr() {
    ZF_ASSIGN_OR_RETURN(NodePtr left, ParseAnd());
    while (SkipName("or")) {
      ZF_ASSIGN_OR_RETURN(NodePtr right, ParseAnd());
      ZF_ASSIGN_OR_RETURN(left, Join(Make(NodeKind::kOr), std::move(left), std::move(right)));
    }
    return left;
  }

  absl::StatusOr<NodePtr> ParseAnd() {
    ZF_ASSIGN_OR_RETURN(NodePtr left, ParseNot());
    while (SkipName("and")) {
      ZF_ASSIGN_OR_RETURN(NodePtr right, ParseNot());
      ZF_ASSIGN_OR_RETURN(left, Join(Make(NodeKind::kAnd), std::move(left), std::move(right)));
    }
    return left;
  }

  absl::StatusOr<NodePtr> ParseNot() {
    if (!IsName("not")) return ParseCompare();
    const Deeper deeper(*this);
    if (level_ > kDeepestTree) return FaultAt(Here().line, "is nested too deeply");
    Take();
    ZF_ASSIGN_OR_RETURN(NodePtr negated, ParseNot());
    return Join(Make(NodeKind::kNot), std::move(negated));
  }

  // Reads a comparison operator if one is next; otherwise returns an empty text.
  std::string TakeComparison() {
    for (const char* op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (Skip(op)) return op;
    }
    if (SkipName("in")) return "in";
    if (IsName("not") && Next().kind == Kind::kName && Next().text == "in") {
      Take();
      Take();
      return "not-in";
    }
    return "";
  }

  absl::StatusOr<NodePtr> ParseCompare() {
    ZF_ASSIGN_OR_RETURN(NodePtr first, ParseSum());
    std::string op = TakeComparison();
    if (op.empty()) return first;
    ZF_ASSIGN_OR_RETURN(NodePtr compare, Join(Make(NodeKind::kCompare), std::move(first)));
    for (; !op.empty(); op = TakeComparison()) {
      ZF_ASSIGN_OR_RETURN(NodePtr next, ParseSum());
      ZF_RETURN_IF_ERROR(AddChild(*compare, std::move(next)));
      absl::StrAppend(&compare->text, op, " ");
    }
    return compare;
  }

  using Level = absl::StatusOr<NodePtr> (Parser::*)();
  absl::StatusOr<NodePtr> ParseLeft(std::initializer_list<const char*> operators, Level tighter) {
    ZF_ASSIGN_OR_RETURN(NodePtr left, (this->*tighter)());
    for (;;) {
      const auto* const op = std::find_if(operators.begin(), operators.end(), [&](const char* o) { return Skip(o); });
      if (op == operators.end()) return left;
      NodePtr node = Make(NodeKind::kBinary, *op);
      ZF_ASSIGN_OR_RETURN(NodePtr right, (this->*tighter)());
      ZF_ASSIGN_OR_RETURN(left, Join(std::move(node), std::move(left), std::move(right)));
    }
  }
  absl::StatusOr<NodePtr> ParseSum() { return ParseLeft({"+", "-"}, &Parser::ParseConcatenation); }
  absl::StatusOr<NodePtr> ParseConcatenation() { return ParseLeft({"~"}, &Parser::ParseProduct); }
  absl::StatusOr<NodePtr> ParseProduct() { return ParseLeft({"*", "//", "/", "%"}, &Parser::ParsePower); }
  absl::StatusOr<NodePtr> ParsePower() { return ParseLeft({"**"}, &Parser::ParseFiltered); }

  absl::StatusOr<NodePtr> ParseFiltered() {
    ZF_ASSIGN_OR_RETURN(NodePtr value, ParseSigned());
    for (;;) {
      if (Skip("|")) {
        ZF_ASSIGN_OR_RETURN(value, ParseFilter(std::move(value)));
      } else if (SkipName("is")) {
        ZF_ASSIGN_OR_RETURN(value, ParseTest(std::move(value)));
      } else if (IsOperator("(")) {
        ZF_ASSIGN_OR_RETURN(value, ParseCall(std::move(value)));
      } else {
        return value;
      }
    }
  }

  absl::StatusOr<NodePtr> ParseSigned() {
    if (!IsOperator("-") && !IsOperator("+")) return ParsePostfix();
    const Deeper deeper(*this);
    if (level_ > kDeepestTree) return FaultAt(Here().line, "is nested too deeply");
    const bool negative = Take().text == "-";
    ZF_ASSIGN_OR_RETURN(NodePtr value, ParseSigned());
    if (!negative) return value;
    return Join(Make(NodeKind::kNegative), std::move(value));
  }

  absl::StatusOr<NodePtr> ParseFilter(NodePtr value) {
    NodePtr node = Make(NodeKind::kFilter);
    ZF_ASSIGN_OR_RETURN(node->text, TakeName());
    ZF_ASSIGN_OR_RETURN(node, Join(std::move(node), std::move(value)));
    if (IsOperator("(")) ZF_RETURN_IF_ERROR(ParseArguments(*node));
    return node;
  }

  absl::StatusOr<NodePtr> ParseTest(NodePtr value) {
    const bool negated = SkipName("not");
    NodePtr node = Make(NodeKind::kTest);
    ZF_ASSIGN_OR_RETURN(node->text, TakeName());
    ZF_ASSIGN_OR_RETURN(node, Join(std::move(node), std::move(value)));
    const auto ends_here = [&] {
      for (const char* word : {"else", "or", "and", "if", "is", "in", "not"}) {
        if (IsName(word)) return true;
      }
      return false;
    };
    const Kind kind = Here().kind;
    if (IsOperator("(")) {
      ZF_RETURN_IF_ERROR(ParseArguments(*node));
    } else if (IsOperator("[") || IsOperator("{") || kind == Kind::kString || kind == Kind::kInteger ||
               kind == Kind::kFloat || (kind == Kind::kName && !ends_here())) {
      ZF_ASSIGN_OR_RETURN(NodePtr argument, ParsePostfix());
      ZF_RETURN_IF_ERROR(AddChild(*node, std::move(argument)));
    }
    if (!negated) return node;
    return Join(Make(NodeKind::kNot), std::move(node));
  }

  absl::StatusOr<NodePtr> ParseCall(NodePtr called) {
    ZF_ASSIGN_OR_RETURN(NodePtr node, Join(Make(NodeKind::kCall), std::move(called)));
    ZF_RETURN_IF_ERROR(ParseArguments(*node));
    return node;
  }

  absl::Status ParseArguments(Node& node) {
    ZF_RETURN_IF_ERROR(Expect("("));
    while (!Skip(")")) {
      const bool keyword = Here().kind == Kind::kName && Next().kind == Kind::kOperator && Next().text == "=";
      NodePtr named = keyword ? Make(NodeKind::kKeyword, Take().text) : nullptr;
      if (keyword) Take();
      ZF_ASSIGN_OR_RETURN(NodePtr argument, ParseExpression());
      if (keyword) {
        ZF_ASSIGN_OR_RETURN(argument, Join(std::move(named), std::move(argument)));
      }
      ZF_RETURN_IF_ERROR(AddChild(node, std::move(argument)));
      if (!IsOperator(")")) ZF_RETURN_IF_ERROR(Expect(","));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<NodePtr> ParsePostfix() {
    ZF_ASSIGN_OR_RETURN(NodePtr value, ParsePrimary());
    for (;;) {
      if (Skip(".")) {
        if (Here().kind == Kind::kInteger) {
          ZF_ASSIGN_OR_RETURN(NodePtr index, ParsePrimary());
          ZF_ASSIGN_OR_RETURN(value, Join(Make(NodeKind::kItem), std::move(value), std::move(index)));
          continue;
        }
        NodePtr attribute = Make(NodeKind::kAttribute);
        ZF_ASSIGN_OR_RETURN(attribute->text, TakeName());
        ZF_ASSIGN_OR_RETURN(value, Join(std::move(attribute), std::move(value)));
      } else if (Skip("[")) {
        ZF_ASSIGN_OR_RETURN(value, ParseSubscript(std::move(value)));
      } else if (IsOperator("(")) {
        ZF_ASSIGN_OR_RETURN(value, ParseCall(std::move(value)));
      } else {
        return value;
      }
    }
  }

  // Parses what follows the bracket.
  absl::StatusOr<NodePtr> ParseSubscript(NodePtr value) {
    NodePtr parts[3];
    int part = 0;
    bool slice = false;
    while (!IsOperator("]")) {
      if (Skip(":")) {
        slice = true;
        if (++part > 2) return Unexpected();
      } else if (parts[part] != nullptr) {
        return Unexpected();
      } else {
        ZF_ASSIGN_OR_RETURN(parts[part], ParseExpression());
      }
    }
    if (!slice && parts[0] == nullptr) return Unexpected();
    Take();
    if (!slice) return Join(Make(NodeKind::kItem), std::move(value), std::move(parts[0]));
    return Join(Make(NodeKind::kSlice), std::move(value), std::move(parts[0]), std::move(parts[1]),
                std::move(parts[2]));
  }

  absl::StatusOr<NodePtr> ParsePrimary() {
    NodePtr constant = Make(NodeKind::kConstant);
    int64_t integer = 0;
    double real = 0;
    switch (Here().kind) {
      case Kind::kName: return ParseNamed();
      case Kind::kString: {
        std::string text;
        while (Here().kind == Kind::kString) text += Take().text;
        constant->value = Value::Of(std::move(text));
        return constant;
      }
      case Kind::kInteger:
        if (!absl::SimpleAtoi(Here().text, &integer)) return FaultAt(Here().line, "a number is too large");
        Take();
        constant->value = Value::Of(integer);
        return constant;
      case Kind::kFloat:
        if (!absl::SimpleAtod(Take().text, &real)) return FaultAt(Here().line, "a number is too large");
        constant->value = Value::Of(real);
        return constant;
      case Kind::kOperator: return ParseBracketed();
      default: return Unexpected();
    }
  }

  absl::StatusOr<NodePtr> ParseNamed() {
    NodePtr node = Make(NodeKind::kConstant);
    const std::string name = Take().text;
    if (name == "true" || name == "True") {
      node->value = Value::Of(true);
    } else if (name == "false" || name == "False") {
      node->value = Value::Of(false);
    } else if (name == "none" || name == "None") {
      node->value = Value::MakeNone();
    } else {
      node->kind = NodeKind::kName;
      node->text = name;
    }
    return node;
  }

  absl::StatusOr<NodePtr> ParseBracketed() {
    if (Skip("(")) {
      if (Skip(")")) return Make(NodeKind::kList);
      ZF_ASSIGN_OR_RETURN(NodePtr value, ParseTuple());
      ZF_RETURN_IF_ERROR(Expect(")"));
      return value;
    }
    const bool list = IsOperator("[");
    if (!list && !IsOperator("{")) return Unexpected();
    NodePtr node = Make(list ? NodeKind::kList : NodeKind::kDict);
    Take();
    const char* const end = list ? "]" : "}";
    while (!Skip(end)) {
      ZF_ASSIGN_OR_RETURN(NodePtr value, ParseExpression());
      ZF_RETURN_IF_ERROR(AddChild(*node, std::move(value)));
      if (!list) {
        ZF_RETURN_IF_ERROR(Expect(":"));
        ZF_ASSIGN_OR_RETURN(NodePtr of_key, ParseExpression());
        ZF_RETURN_IF_ERROR(AddChild(*node, std::move(of_key)));
      }
      if (!IsOperator(end)) ZF_RETURN_IF_ERROR(Expect(","));
    }
    return node;
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int level_ = 0, loops_ = 0;
};

}  // namespace

absl::StatusOr<NodePtr> ParseTemplate(std::string_view source) {
  if (static_cast<int64_t>(source.size()) > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", source.size(), " bytes; ", kMaxTemplateBytes, " are the most"));
  }
  ZF_ASSIGN_OR_RETURN(std::vector<Token> tokens, Lex(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace zerofleet::text::jinja
