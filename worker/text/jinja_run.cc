// A walk over the tree; see jinja_run.h.
#include "worker/text/jinja_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "worker/text/jinja_builtins.h"
#include "worker/text/jinja_lexer.h"

namespace zerofleet::text::jinja {
namespace {

constexpr int kDeepestCall = 20;  // nested calls of macros

enum class Flow : uint8_t { kOn, kBreak, kContinue };

absl::Status Unordered(const Value& a, const Value& b) {
  return absl::InvalidArgumentError(absl::StrCat(a.TypeName(), " and ", b.TypeName(), " have no order"));
}

absl::StatusOr<bool> ComparePair(std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return a == b;
  if (op == "!=") return !(a == b);
  if (op == "in") return Contains(b, a);
  if (op == "not-in") {
    ZF_ASSIGN_OR_RETURN(const bool there, Contains(b, a));
    return !there;
  }
  const int order = Compare(a, b);
  if (order == 2) return Unordered(a, b);
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

// Operations on whole numbers. Python's are unbounded; here overflow is an error.
absl::StatusOr<Value> IntegerOperation(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = false;
  if (op == "+") overflows = __builtin_add_overflow(a, b, &result);
  if (op == "-") overflows = __builtin_sub_overflow(a, b, &result);
  if (op == "*") overflows = __builtin_mul_overflow(a, b, &result);
  if (op == "//" || op == "%") {
    if (b == 0) return absl::InvalidArgumentError("a division by 0");
    if (b == -1) return op == "%" ? Value::Of(int64_t{0}) : IntegerOperation("-", 0, a);
    const int64_t remainder = a % b, down = remainder != 0 && (remainder < 0) != (b < 0) ? 1 : 0;
    result = op == "//" ? a / b - down : remainder + down * b;
  }
  if (overflows) return absl::InvalidArgumentError("a number is too large");
  return Value::Of(result);
}

absl::StatusOr<Value> NumberOperation(std::string_view op, const Value& a, const Value& b) {
  if (!a.is_float() && !b.is_float() && op != "/" && op != "**") return IntegerOperation(op, a.integer(), b.integer());
  const double x = a.real(), y = b.real();
  if (op == "+") return Value::Of(x + y);
  if (op == "-") return Value::Of(x - y);
  if (op == "*") return Value::Of(x * y);
  if (op == "**") {
    const double power = std::pow(x, y);
    if (a.is_float() || b.is_float() || y < 0) return Value::Of(power);
    if (!(std::abs(power) < 9e15)) return absl::InvalidArgumentError("a number is too large");
    return Value::Of(static_cast<int64_t>(power));
  }
  if (y == 0) return absl::InvalidArgumentError("a division by 0");
  if (op == "/") return Value::Of(x / y);
  return Value::Of(op == "//" ? std::floor(x / y) : x - y * std::floor(x / y));
}

absl::StatusOr<Value> Operation(const std::string& op, const Value& a, const Value& b) {
  if (op == "~") return Value::Of(absl::StrCat(a.Print(), b.Print()));
  if (a.number() && b.number()) return NumberOperation(op, a, b);
  if (op == "+" && a.string() != nullptr && b.string() != nullptr) {
    return Value::Of(absl::StrCat(*a.string(), *b.string()));
  }
  if (op == "+" && a.list() != nullptr && b.list() != nullptr) {
    Value::List both = *a.list();
    both.insert(both.end(), b.list()->begin(), b.list()->end());
    return Value::Of(std::move(both));
  }
  if (op == "*" && a.number() && b.string() != nullptr) return Operation(op, b, a);
  if (op == "*" && a.string() != nullptr && (b.is_integer() || b.boolean())) {
    const auto times = static_cast<size_t>(std::clamp<int64_t>(b.integer(), 0, Value::kHeaviest));
    if (times * a.string()->size() > static_cast<size_t>(Value::kHeaviest)) {
      return absl::InvalidArgumentError("a text is too long");
    }
    std::string text;
    for (size_t i = 0; i < times; ++i) text += *a.string();
    return Value::Of(std::move(text));
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", op, "\" is not for ", a.TypeName(), " and ", b.TypeName()));
}

class Runner {
 public:
  Runner(Value::Dict variables, std::time_t now, const Limits& limits) : now_(now), limits_(limits) {
    scopes_.push_back(std::move(variables));
  }

  absl::StatusOr<std::string> Run(const Node& body) {
    std::string out;
    ZF_ASSIGN_OR_RETURN(const Flow flow, Execute(body, out));
    static_cast<void>(flow);
    return out;
  }

 private:
  using Scope = Value::Dict;

  absl::Status Spend(int64_t steps) {
    steps_ += steps;
    if (steps_ <= limits_.steps) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("takes more than ", limits_.steps, " steps"));
  }

  absl::Status Append(std::string_view text, std::string& out) {
    ZF_RETURN_IF_ERROR(Spend(static_cast<int64_t>(text.size()) / 64));
    if (static_cast<int64_t>(out.size() + text.size()) > limits_.output_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("prints more than ", limits_.output_bytes, " bytes"));
    }
    out.append(text);
    return absl::OkStatus();
  }

  // --- Variables

  const Value* Look(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      for (auto entry = scope->rbegin(); entry != scope->rend(); ++entry) {
        if (entry->first == name) return &entry->second;
      }
    }
    return nullptr;
  }

  void Set(const std::string& name, Value value) {
    for (auto& [known, old] : scopes_.back()) {
      if (known != name) continue;
      old = std::move(value);
      return;
    }
    scopes_.back().emplace_back(name, std::move(value));
  }

  absl::Status Assign(const Node& target, Value value) {
    if (target.kind == NodeKind::kName) {
      Set(target.text, std::move(value));
      return absl::OkStatus();
    }
    if (target.kind == NodeKind::kAttribute) return AssignAttribute(target, std::move(value));
    ZF_ASSIGN_OR_RETURN(const Value::List parts, Iterate(value));
    if (parts.size() != target.children.size()) {
      return FaultAt(target.line, absl::StrCat(parts.size(), " values for ", target.children.size(), " names"));
    }
    for (size_t i = 0; i < parts.size(); ++i) Set(target.children[i]->text, parts[i]);
    return absl::OkStatus();
  }

  absl::Status AssignAttribute(const Node& target, Value value) {
    const Value* const holder = Look(target.children[0]->text);
    Value::Namespace* const space = holder == nullptr ? nullptr : holder->space();
    if (space == nullptr) return FaultAt(target.line, "attributes can be set of a namespace alone");
    if (value.depth() > Value::kDeepest) return FaultAt(target.line, "a namespace cannot hold one");
    for (auto& [name, old] : space->attributes) {
      if (name != target.text) continue;
      old = std::move(value);
      return absl::OkStatus();
    }
    space->attributes.emplace_back(target.text, std::move(value));
    return absl::OkStatus();
  }

  // --- Statements

  absl::StatusOr<Flow> Execute(const Node& node, std::string& out) {
    ZF_RETURN_IF_ERROR(Spend(1));
    switch (node.kind) {
      case NodeKind::kBody:
        for (const NodePtr& child : node.children) {
          ZF_ASSIGN_OR_RETURN(const Flow flow, Execute(*child, out));
          if (flow != Flow::kOn) return flow;
        }
        return Flow::kOn;
      case NodeKind::kText: ZF_RETURN_IF_ERROR(Append(*node.value.string(), out)); return Flow::kOn;
      case NodeKind::kPrint: {
        ZF_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
        ZF_RETURN_IF_ERROR(Append(value.Print(), out));
        return Flow::kOn;
      }
      case NodeKind::kIf: return ExecuteIf(node, out);
      case NodeKind::kFor: return ExecuteFor(node, out);
      case NodeKind::kSet: {
        ZF_ASSIGN_OR_RETURN(Value value, Evaluate(*node.children[1]));
        ZF_RETURN_IF_ERROR(Assign(*node.children[0], std::move(value)));
        return Flow::kOn;
      }
      case NodeKind::kSetBlock: {
        std::string text;
        ZF_ASSIGN_OR_RETURN(const Flow flow, Execute(*node.children[1], text));
        ZF_RETURN_IF_ERROR(Assign(*node.children[0], Value::Of(std::move(text))));
        return flow;
      }
      case NodeKind::kMacro: Set(node.text, Value::Of(Value::Macro{&node})); return Flow::kOn;
      case NodeKind::kBreak: return Flow::kBreak;
      case NodeKind::kContinue: return Flow::kContinue;
      default: return FaultAt(node.line, "not a statement");
    }
  }

  absl::StatusOr<Flow> ExecuteIf(const Node& node, std::string& out) {
    size_t i = 0;
    for (; i + 1 < node.children.size(); i += 2) {
      ZF_ASSIGN_OR_RETURN(const Value condition, Evaluate(*node.children[i]));
      if (condition.Truth()) return Execute(*node.children[i + 1], out);
    }
    if (i < node.children.size()) return Execute(*node.children[i], out);
    return Flow::kOn;
  }

  // A scope that exists as long as this object.
  struct Inner {
    explicit Inner(Runner& of) : runner(of) { runner.scopes_.emplace_back(); }
    ~Inner() { runner.scopes_.pop_back(); }
    Inner(const Inner&) = delete;
    Runner& runner;
  };

  static Value LoopAt(const Value::List& elements, size_t i) {
    const auto index = static_cast<int64_t>(i), count = static_cast<int64_t>(elements.size());
    return Value::Of(Value::Dict{{"index", Value::Of(index + 1)},
                                 {"index0", Value::Of(index)},
                                 {"first", Value::Of(i == 0)},
                                 {"last", Value::Of(index + 1 == count)},
                                 {"length", Value::Of(count)},
                                 {"revindex", Value::Of(count - index)},
                                 {"revindex0", Value::Of(count - index - 1)},
                                 {"previtem", i == 0 ? Value() : elements[i - 1]},
                                 {"nextitem", index + 1 == count ? Value() : elements[i + 1]}});
  }

  absl::StatusOr<Value::List> LoopElements(const Node& node) {
    ZF_ASSIGN_OR_RETURN(const Value iterated, Evaluate(*node.children[1]));
    absl::StatusOr<Value::List> elements = Iterate(iterated);
    if (!elements.ok()) return FaultAt(node.line, std::string(elements.status().message()));
    if (node.children[2] == nullptr) return elements;
    Value::List chosen;
    for (Value& element : *elements) {
      const Inner inner(*this);
      ZF_RETURN_IF_ERROR(Assign(*node.children[0], element));
      ZF_ASSIGN_OR_RETURN(const Value condition, Evaluate(*node.children[2]));
      if (condition.Truth()) chosen.push_back(std::move(element));
    }
    return chosen;
  }

  absl::StatusOr<Flow> ExecuteFor(const Node& node, std::string& out) {
    ZF_ASSIGN_OR_RETURN(const Value::List elements, LoopElements(node));
    if (elements.empty() && node.children[4] != nullptr) return Execute(*node.children[4], out);
    for (size_t i = 0; i < elements.size(); ++i) {
      const Inner inner(*this);
      Set("loop", LoopAt(elements, i));
      ZF_RETURN_IF_ERROR(Assign(*node.children[0], elements[i]));
      ZF_ASSIGN_OR_RETURN(const Flow flow, Execute(*node.children[3], out));
      if (flow == Flow::kBreak) break;
    }
    return Flow::kOn;
  }

  // --- Expressions

  absl::StatusOr<Value> Evaluate(const Node& node) {
    ZF_RETURN_IF_ERROR(Spend(1));
    absl::StatusOr<Value> value = EvaluateNode(node);
    if (!value.ok()) {
      if (!absl::IsInvalidArgument(value.status()) || absl::StartsWith(value.status().message(), "line ")) return value;
      return FaultAt(node.line, std::string(value.status().message()));
    }
    ZF_RETURN_IF_ERROR(Spend(value->weight() / 64));
    const bool held = value->space() == nullptr && value->depth() > Value::kDeepest;
    if (held) return FaultAt(node.line, "a value is nested too deeply, or holds a namespace");
    if (made(node) && value->weight() > Value::kHeaviest) return FaultAt(node.line, "a value is too large");
    return value;
  }

  static bool made(const Node& node) { return node.kind != NodeKind::kName && node.kind != NodeKind::kAttribute; }

  absl::StatusOr<Value> EvaluateNode(const Node& node) {
    const auto child = [&](size_t i) -> const Node& { return *node.children[i]; };
    switch (node.kind) {
      case NodeKind::kConstant: return node.value;
      case NodeKind::kName: {
        const Value* const found = Look(node.text);
        return found == nullptr ? Value() : *found;
      }
      case NodeKind::kList: {
        Value::List list;
        for (const NodePtr& element : node.children) {
          ZF_ASSIGN_OR_RETURN(Value value, Evaluate(*element));
          list.push_back(std::move(value));
        }
        return Value::Of(std::move(list));
      }
      case NodeKind::kDict: return EvaluateDict(node);
      case NodeKind::kAttribute: {
        ZF_ASSIGN_OR_RETURN(const Value of, Evaluate(child(0)));
        return AttributeOf(of, node.text);
      }
      case NodeKind::kItem: {
        ZF_ASSIGN_OR_RETURN(const Value of, Evaluate(child(0)));
        ZF_ASSIGN_OR_RETURN(const Value index, Evaluate(child(1)));
        return ItemOf(of, index);
      }
      case NodeKind::kSlice: return EvaluateSlice(node);
      case NodeKind::kCall: return EvaluateCall(node);
      case NodeKind::kFilter: return EvaluateFilter(node);
      case NodeKind::kTest: return EvaluateTest(node);
      case NodeKind::kCompare: return EvaluateCompare(node);
      case NodeKind::kChoice: {
        ZF_ASSIGN_OR_RETURN(const Value condition, Evaluate(child(1)));
        if (condition.Truth()) return Evaluate(child(0));
        return node.children.size() > 2 ? Evaluate(child(2)) : Value();
      }
      default: return EvaluateOperator(node);
    }
  }

  absl::StatusOr<Value> EvaluateOperator(const Node& node) {
    ZF_ASSIGN_OR_RETURN(Value first, Evaluate(*node.children[0]));
    switch (node.kind) {
      case NodeKind::kNot: return Value::Of(!first.Truth());
      case NodeKind::kNegative:
        if (!first.number()) return absl::InvalidArgumentError(absl::StrCat(first.TypeName(), " has no negative"));
        return first.is_float() ? Value::Of(-first.real()) : IntegerOperation("-", 0, first.integer());
      case NodeKind::kAnd: return first.Truth() ? Evaluate(*node.children[1]) : first;
      case NodeKind::kOr: return first.Truth() ? first : Evaluate(*node.children[1]);
      case NodeKind::kBinary: {
        ZF_ASSIGN_OR_RETURN(const Value second, Evaluate(*node.children[1]));
        return Operation(node.text, first, second);
      }
      default: return absl::InvalidArgumentError("not an expression");
    }
  }

  absl::StatusOr<Value> EvaluateDict(const Node& node) {
    Value::Dict dict;
    for (size_t i = 0; i < node.children.size(); i += 2) {
      ZF_ASSIGN_OR_RETURN(const Value key, Evaluate(*node.children[i]));
      ZF_ASSIGN_OR_RETURN(Value value, Evaluate(*node.children[i + 1]));
      if (key.string() == nullptr) return absl::InvalidArgumentError("the keys of a dictionary are texts");
      const auto known =
          std::find_if(dict.begin(), dict.end(), [&](const auto& entry) { return entry.first == *key.string(); });
      if (known != dict.end()) {
        known->second = std::move(value);
      } else {
        dict.emplace_back(*key.string(), std::move(value));
      }
    }
    return Value::Of(std::move(dict));
  }

  absl::StatusOr<Value> EvaluateSlice(const Node& node) {
    Value parts[4];
    for (size_t i = 0; i < 4; ++i) {
      if (node.children[i] == nullptr) continue;
      ZF_ASSIGN_OR_RETURN(parts[i], Evaluate(*node.children[i]));
    }
    return SliceOf(parts[0], parts[1], parts[2], parts[3]);
  }

  absl::StatusOr<Value> EvaluateCompare(const Node& node) {
    ZF_ASSIGN_OR_RETURN(Value left, Evaluate(*node.children[0]));
    size_t i = 1;
    const std::vector<std::string> operators = absl::StrSplit(node.text, ' ', absl::SkipEmpty());
    for (const std::string& op : operators) {
      ZF_ASSIGN_OR_RETURN(Value right, Evaluate(*node.children[i++]));
      ZF_ASSIGN_OR_RETURN(const bool holds, ComparePair(op, left, right));
      if (!holds) return Value::Of(false);
      left = std::move(right);
    }
    return Value::Of(true);
  }

  absl::StatusOr<Arguments> EvaluateArguments(const Node& node) {
    Arguments arguments;
    for (size_t i = 1; i < node.children.size(); ++i) {
      const Node& child = *node.children[i];
      const bool keyword = child.kind == NodeKind::kKeyword;
      ZF_ASSIGN_OR_RETURN(Value value, Evaluate(keyword ? *child.children[0] : child));
      if (keyword) {
        arguments.keywords.emplace_back(child.text, std::move(value));
      } else {
        arguments.positional.push_back(std::move(value));
      }
    }
    return arguments;
  }

  absl::StatusOr<Value> EvaluateFilter(const Node& node) {
    const Function filter = FindFilter(node.text);
    if (filter == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("the filter \"", node.text, "\" is not supported"));
    ZF_ASSIGN_OR_RETURN(const Value of, Evaluate(*node.children[0]));
    ZF_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node));
    return filter(of, arguments, now_);
  }

  absl::StatusOr<Value> EvaluateTest(const Node& node) {
    const Test test = FindTest(node.text);
    if (test == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("the test \"", node.text, "\" is not supported"));
    const Node& tested = *node.children[0];
    const bool of_definition = node.text == "defined" || node.text == "undefined";
    if (of_definition && tested.kind == NodeKind::kName && Look(tested.text) == nullptr &&
        FindFunction(tested.text) != nullptr) {
      return Value::Of(node.text == "defined");
    }
    ZF_ASSIGN_OR_RETURN(const Value of, Evaluate(tested));
    ZF_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node));
    ZF_ASSIGN_OR_RETURN(const bool passes, test(of, arguments));
    return Value::Of(passes);
  }

  absl::StatusOr<Value> EvaluateCall(const Node& node) {
    const Node& called = *node.children[0];
    ZF_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node));
    if (called.kind == NodeKind::kAttribute) {
      ZF_ASSIGN_OR_RETURN(const Value of, Evaluate(*called.children[0]));
      if (const Function method = FindMethod(of, called.text); method != nullptr) return method(of, arguments, now_);
      return absl::InvalidArgumentError(
          absl::StrCat("the method \"", called.text, "\" of ", of.TypeName(), " is not supported"));
    }
    if (called.kind != NodeKind::kName) return absl::InvalidArgumentError("what is called is no function");
    const Value* const known = Look(called.text);
    if (known != nullptr && known->macro() != nullptr) return CallMacro(*known->macro()->definition, arguments);
    const Function function = known == nullptr ? FindFunction(called.text) : nullptr;
    if (function == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("the function \"", called.text, "\" is not supported"));
    }
    return function(Value(), arguments, now_);
  }

  // A macro sees its arguments and the variables that the template has set outside loops.
  absl::StatusOr<Value> CallMacro(const Node& macro, const Arguments& arguments) {
    if (calls_ >= kDeepestCall) return absl::InvalidArgumentError("macros call each other too deeply");
    const size_t parameters = macro.children.size() - 1;
    if (arguments.positional.size() > parameters) {
      return absl::InvalidArgumentError(absl::StrCat("\"", macro.text, "\" takes at most ", parameters, " arguments"));
    }
    std::vector<Scope> outer = std::move(scopes_);
    scopes_.clear();
    scopes_.push_back(std::move(outer.front()));
    scopes_.emplace_back();
    ++calls_;
    std::string text;
    const absl::Status status = RunMacro(macro, arguments, text);
    --calls_;
    outer.front() = std::move(scopes_.front());
    scopes_ = std::move(outer);
    if (!status.ok()) return status;
    return Value::Of(std::move(text));
  }

  absl::Status RunMacro(const Node& macro, const Arguments& arguments, std::string& text) {
    for (size_t i = 0; i + 1 < macro.children.size(); ++i) {
      const Node& parameter = *macro.children[i];
      const Value* const given = arguments.Get(i, parameter.text);
      Value value = given == nullptr ? Value() : *given;
      if (given == nullptr && !parameter.children.empty()) {
        ZF_ASSIGN_OR_RETURN(value, Evaluate(*parameter.children[0]));
      }
      Set(parameter.text, std::move(value));
    }
    return Execute(*macro.children.back(), text).status();
  }

  const std::time_t now_;
  const Limits limits_;
  std::vector<Scope> scopes_;  // the last one is the innermost
  int64_t steps_ = 0;
  int calls_ = 0;
};

}  // namespace

absl::StatusOr<Template> Template::Parse(std::string_view source) {
  ZF_ASSIGN_OR_RETURN(NodePtr body, ParseTemplate(source));
  return Template(std::move(body));
}

absl::StatusOr<std::string> Template::Render(const Value::Dict& variables, std::time_t now,
                                             const Limits& limits) const {
  return Runner(variables, now, limits).Run(*body_);
}

}  // namespace zerofleet::text::jinja
