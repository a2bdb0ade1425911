// Filters and tests of chat templates, as in Jinja; see jinja_builtins.h.
#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "worker/text/jinja_builtins.h"
#include "worker/text/jinja_strings.h"
#include "worker/text/unicode.h"

namespace zerofleet::text::jinja {
namespace {

bool Flag(const Arguments& arguments, size_t position, std::string_view name) {
  const Value* const value = arguments.Get(position, name);
  return value != nullptr && value->Truth();
}

// An attribute by name, or by several names joined by dots.
absl::StatusOr<Value> AttributeByPath(Value of, const std::string& path) {
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (const std::string& name : names) {
    if (of.undefined()) return of;
    int64_t index = 0;
    if (of.list() != nullptr && absl::SimpleAtoi(name, &index)) {
      ZF_ASSIGN_OR_RETURN(of, ItemOf(of, Value::Of(index)));
    } else {
      ZF_ASSIGN_OR_RETURN(of, AttributeOf(of, name));
    }
  }
  return of;
}

// --- Filters

absl::StatusOr<Value> TrimFilter(const Value& of, const Arguments& arguments, std::time_t) {
  const Value* const which = arguments.Get(0, "chars");
  const std::string text = of.Print();
  return Value::Of(std::string(Strip(text, which == nullptr ? nullptr : which->string(), true, true)));
}

absl::StatusOr<Value> LengthFilter(const Value& of, const Arguments&, std::time_t) {
  ZF_ASSIGN_OR_RETURN(const Value::List elements, Iterate(of));
  return Value::Of(static_cast<int64_t>(elements.size()));
}

absl::StatusOr<Value> ToJsonFilter(const Value& of, const Arguments& arguments, std::time_t) {
  for (const auto& [name, value] : arguments.keywords) {
    if (name != "indent" && name != "ensure_ascii") {
      return absl::InvalidArgumentError(absl::StrCat("tojson(", name, "=...) is not supported"));
    }
  }
  if (of.undefined()) return absl::InvalidArgumentError("what is undefined has no JSON");
  if (Flag(arguments, 9, "ensure_ascii"))
    return absl::InvalidArgumentError("tojson(ensure_ascii=true) is not supported");
  const Value* const indent = arguments.Get(0, "indent");
  const bool lines = indent != nullptr && indent->is_integer();
  return Value::Of(of.ToJson(lines ? static_cast<int>(std::clamp<int64_t>(indent->integer(), 0, 16)) : -1));
}

absl::StatusOr<Value> UpperFilter(const Value& of, const Arguments&, std::time_t) {
  return Value::Of(UpperCase(of.Print()));
}
absl::StatusOr<Value> LowerFilter(const Value& of, const Arguments&, std::time_t) {
  return Value::Of(LowerCase(of.Print()));
}
absl::StatusOr<Value> TitleFilter(const Value& of, const Arguments&, std::time_t) {
  return Value::Of(Capitals(of.Print(), true));
}
absl::StatusOr<Value> CapitalizeFilter(const Value& of, const Arguments&, std::time_t) {
  return Value::Of(Capitals(of.Print(), false));
}

absl::StatusOr<Value> DefaultFilter(const Value& of, const Arguments& arguments, std::time_t) {
  const Value* const otherwise = arguments.Get(0, "default_value");
  if (!of.undefined() && (of.Truth() || !Flag(arguments, 1, "boolean"))) return of;
  return otherwise == nullptr ? Value::Of("") : *otherwise;
}

absl::StatusOr<Value> JoinFilter(const Value& of, const Arguments& arguments, std::time_t) {
  ZF_ASSIGN_OR_RETURN(const Value::List elements, Iterate(of));
  const Value *const between = arguments.Get(0, "d"), *const attribute = arguments.Get(1, "attribute");
  std::string joined;
  for (size_t i = 0; i < elements.size(); ++i) {
    Value element = elements[i];
    if (attribute != nullptr) {
      ZF_ASSIGN_OR_RETURN(element, AttributeByPath(element, attribute->Print()));
    }
    if (i > 0 && between != nullptr) joined += between->Print();
    joined += element.Print();
    if (static_cast<int64_t>(joined.size()) > Value::kHeaviest) return absl::InvalidArgumentError("a text is too long");
  }
  return Value::Of(std::move(joined));
}

absl::StatusOr<Value> ListFilter(const Value& of, const Arguments&, std::time_t) {
  ZF_ASSIGN_OR_RETURN(Value::List elements, Iterate(of));
  return Value::Of(std::move(elements));
}

absl::StatusOr<Value> ItemsFilter(const Value& of, const Arguments& arguments, std::time_t now) {
  if (of.undefined()) return Value::Of(Value::List());
  if (of.dict() == nullptr) return absl::InvalidArgumentError(absl::StrCat(of.TypeName(), " has no items"));
  return FindMethod(of, "items")(of, arguments, now);
}

absl::StatusOr<Value> FirstFilter(const Value& of, const Arguments&, std::time_t) {
  ZF_ASSIGN_OR_RETURN(const Value::List elements, Iterate(of));
  return elements.empty() ? Value() : elements.front();
}
absl::StatusOr<Value> LastFilter(const Value& of, const Arguments&, std::time_t) {
  ZF_ASSIGN_OR_RETURN(const Value::List elements, Iterate(of));
  return elements.empty() ? Value() : elements.back();
}

absl::StatusOr<Value> ReplaceFilter(const Value& of, const Arguments& arguments, std::time_t now) {
  const Value text = Value::Of(of.Print());
  return FindMethod(text, "replace")(text, arguments, now);
}

// The elements of `of` that pass a test, or (`wanted` false) fail it; with `by_attribute` the test is applied to an
// attribute.
absl::StatusOr<Value> Chosen(const Value& of, const Arguments& arguments, bool by_attribute, bool wanted) {
  ZF_ASSIGN_OR_RETURN(const Value::List elements, Iterate(of));
  const Value* const attribute = arguments.Get(0, "");
  if (by_attribute && attribute == nullptr) return absl::InvalidArgumentError("takes an attribute, which is missing");
  const Arguments of_test = arguments.Behind(by_attribute ? 1 : 0);
  const Value* const name = of_test.Get(0, "");
  const Test test = name == nullptr ? nullptr : FindTest(name->Print());
  if (name != nullptr && test == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the test \"", name->Print(), "\" is not supported"));
  }
  Value::List chosen;
  for (const Value& element : elements) {
    Value tested = element;
    if (by_attribute) {
      ZF_ASSIGN_OR_RETURN(tested, AttributeByPath(element, attribute->Print()));
    }
    bool passes = tested.Truth();
    if (test != nullptr) {
      ZF_ASSIGN_OR_RETURN(passes, test(tested, of_test.Behind(1)));
    }
    if (passes == wanted) chosen.push_back(element);
  }
  return Value::Of(std::move(chosen));
}
absl::StatusOr<Value> SelectFilter(const Value& of, const Arguments& arguments, std::time_t) {
  return Chosen(of, arguments, false, true);
}
absl::StatusOr<Value> RejectFilter(const Value& of, const Arguments& arguments, std::time_t) {
  return Chosen(of, arguments, false, false);
}
absl::StatusOr<Value> SelectAttrFilter(const Value& of, const Arguments& arguments, std::time_t) {
  return Chosen(of, arguments, true, true);
}
absl::StatusOr<Value> RejectAttrFilter(const Value& of, const Arguments& arguments, std::time_t) {
  return Chosen(of, arguments, true, false);
}

absl::StatusOr<Value> MapFilter(const Value& of, const Arguments& arguments, std::time_t now) {
  ZF_ASSIGN_OR_RETURN(const Value::List elements, Iterate(of));
  const Value *const attribute = arguments.Get(9, "attribute"), *const name = arguments.Get(0, "");
  const Function filter = name == nullptr ? nullptr : FindFilter(name->Print());
  if (attribute == nullptr && filter == nullptr) {
    return absl::InvalidArgumentError("map takes an attribute or the name of a filter that is supported");
  }
  if (filter != nullptr && FindFilter("map") == filter)
    return absl::InvalidArgumentError("a map of maps is not supported");
  const Value* const otherwise = arguments.Get(9, "default");
  Value::List mapped;
  for (const Value& element : elements) {
    Value value;
    if (attribute != nullptr) {
      ZF_ASSIGN_OR_RETURN(value, AttributeByPath(element, attribute->Print()));
      if (value.undefined() && otherwise != nullptr) value = *otherwise;
    } else {
      ZF_ASSIGN_OR_RETURN(value, filter(element, arguments.Behind(1), now));
    }
    mapped.push_back(std::move(value));
  }
  return Value::Of(std::move(mapped));
}

absl::StatusOr<Value> StringFilter(const Value& of, const Arguments&, std::time_t) { return Value::Of(of.Print()); }
absl::StatusOr<Value> SameFilter(const Value& of, const Arguments&, std::time_t) { return of; }

absl::StatusOr<Value> IntFilter(const Value& of, const Arguments& arguments, std::time_t) {
  if (of.number()) return Value::Of(of.integer());
  double real = 0;
  if (of.string() != nullptr && absl::SimpleAtod(*of.string(), &real) && std::abs(real) < 9e18) {
    return Value::Of(static_cast<int64_t>(real));
  }
  const Value* const otherwise = arguments.Get(0, "default");
  return otherwise == nullptr ? Value::Of(int64_t{0}) : *otherwise;
}

absl::StatusOr<Value> FloatFilter(const Value& of, const Arguments& arguments, std::time_t) {
  if (of.number()) return Value::Of(of.real());
  double real = 0;
  if (of.string() != nullptr && absl::SimpleAtod(*of.string(), &real)) return Value::Of(real);
  const Value* const otherwise = arguments.Get(0, "default");
  return otherwise == nullptr ? Value::Of(0.0) : *otherwise;
}

absl::StatusOr<Value> AbsFilter(const Value& of, const Arguments&, std::time_t) {
  if (!of.number()) return absl::InvalidArgumentError(absl::StrCat("abs takes a number, not ", of.TypeName()));
  if (of.is_float()) return Value::Of(std::abs(of.real()));
  return Value::Of(of.integer() < 0 && of.integer() > INT64_MIN ? -of.integer() : of.integer());
}

absl::StatusOr<Value> IndentFilter(const Value& of, const Arguments& arguments, std::time_t) {
  const Value* const width = arguments.Get(0, "width");
  const int64_t spaces = width == nullptr ? 4 : std::clamp<int64_t>(width->integer(), 0, 64);
  const std::string blanks =
      width != nullptr && width->string() != nullptr ? *width->string() : std::string(static_cast<size_t>(spaces), ' ');
  const bool first = Flag(arguments, 1, "first"), blank = Flag(arguments, 2, "blank");
  if (blanks.size() > 64) return absl::InvalidArgumentError("an indent is too wide");
  std::string indented;
  const std::vector<std::string> lines = absl::StrSplit(of.Print(), '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) indented += '\n';
    if ((i > 0 || first) && (blank || !lines[i].empty())) indented += blanks;
    indented += lines[i];
  }
  return Value::Of(std::move(indented));
}

absl::StatusOr<Value> ReverseFilter(const Value& of, const Arguments&, std::time_t) {
  ZF_ASSIGN_OR_RETURN(Value::List elements, Iterate(of));
  std::reverse(elements.begin(), elements.end());
  if (of.string() == nullptr) return Value::Of(std::move(elements));
  std::string text;
  for (const Value& character : elements) text += *character.string();
  return Value::Of(std::move(text));
}

absl::StatusOr<Value> UniqueFilter(const Value& of, const Arguments&, std::time_t) {
  ZF_ASSIGN_OR_RETURN(const Value::List elements, Iterate(of));
  if (elements.size() > 1000) return absl::InvalidArgumentError("unique takes at most 1000 elements");
  Value::List unique;
  for (const Value& element : elements) {
    if (std::find(unique.begin(), unique.end(), element) == unique.end()) unique.push_back(element);
  }
  return Value::Of(std::move(unique));
}

absl::StatusOr<Value> Sorted(Value::List elements, const Arguments& arguments, const std::string& attribute) {
  // Keys are compared without case unless case_sensitive is set.
  const bool with_case = Flag(arguments, 1, "case_sensitive"), reverse = Flag(arguments, 0, "reverse");
  std::vector<std::pair<Value, size_t>> keys;
  for (size_t i = 0; i < elements.size(); ++i) {
    Value key = elements[i];
    if (!attribute.empty()) {
      ZF_ASSIGN_OR_RETURN(key, AttributeByPath(key, attribute));
    }
    if (!with_case && key.string() != nullptr) key = Value::Of(LowerCase(*key.string()));
    if (Compare(key, keys.empty() ? key : keys.front().first) == 2) {
      return absl::InvalidArgumentError("sort takes numbers or texts alone");
    }
    keys.emplace_back(std::move(key), i);
  }
  std::stable_sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) {
    return reverse ? Compare(b.first, a.first) < 0 : Compare(a.first, b.first) < 0;
  });
  Value::List sorted;
  for (const auto& key : keys) sorted.push_back(elements[key.second]);
  return Value::Of(std::move(sorted));
}
absl::StatusOr<Value> SortFilter(const Value& of, const Arguments& arguments, std::time_t) {
  ZF_ASSIGN_OR_RETURN(Value::List elements, Iterate(of));
  const Value* const attribute = arguments.Get(2, "attribute");
  return Sorted(std::move(elements), arguments, attribute == nullptr ? "" : attribute->Print());
}
absl::StatusOr<Value> DictSortFilter(const Value& of, const Arguments& arguments, std::time_t now) {
  if (!arguments.positional.empty() || !arguments.keywords.empty()) {
    return absl::InvalidArgumentError("dictsort is supported without arguments");
  }
  ZF_ASSIGN_OR_RETURN(const Value items, ItemsFilter(of, arguments, now));
  return Sorted(*items.list(), {}, "0");
}

absl::StatusOr<Value> EscapeFilter(const Value& of, const Arguments&, std::time_t) {
  return Value::Of(
      absl::StrReplaceAll(of.Print(), {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}}));
}

struct FilterRow {
  std::string_view name;
  Function function;
};
constexpr FilterRow kFilters[] = {
    {"trim", TrimFilter},
    {"length", LengthFilter},
    {"count", LengthFilter},
    {"tojson", ToJsonFilter},
    {"upper", UpperFilter},
    {"lower", LowerFilter},
    {"title", TitleFilter},
    {"capitalize", CapitalizeFilter},
    {"default", DefaultFilter},
    {"d", DefaultFilter},
    {"join", JoinFilter},
    {"list", ListFilter},
    {"items", ItemsFilter},
    {"first", FirstFilter},
    {"last", LastFilter},
    {"replace", ReplaceFilter},
    {"select", SelectFilter},
    {"reject", RejectFilter},
    {"selectattr", SelectAttrFilter},
    {"rejectattr", RejectAttrFilter},
    {"map", MapFilter},
    {"string", StringFilter},
    {"safe", SameFilter},
    {"int", IntFilter},
    {"float", FloatFilter},
    {"abs", AbsFilter},
    {"indent", IndentFilter},
    {"reverse", ReverseFilter},
    {"unique", UniqueFilter},
    {"sort", SortFilter},
    {"dictsort", DictSortFilter},
    {"escape", EscapeFilter},
    {"e", EscapeFilter},
};

// --- Tests

absl::StatusOr<const Value*> Operand(const Arguments& arguments) {
  const Value* const operand = arguments.Get(0, "");
  if (operand == nullptr) return absl::InvalidArgumentError("a test takes a value, which is missing");
  return operand;
}

absl::StatusOr<bool> EqualTest(const Value& of, const Arguments& arguments) {
  ZF_ASSIGN_OR_RETURN(const Value* other, Operand(arguments));
  return of == *other;
}
absl::StatusOr<bool> UnequalTest(const Value& of, const Arguments& arguments) {
  ZF_ASSIGN_OR_RETURN(const Value* other, Operand(arguments));
  return !(of == *other);
}
absl::StatusOr<int> Ordered(const Value& of, const Arguments& arguments) {
  ZF_ASSIGN_OR_RETURN(const Value* other, Operand(arguments));
  const int order = Compare(of, *other);
  if (order == 2) return absl::InvalidArgumentError("what is compared has no order");
  return order;
}
absl::StatusOr<bool> LessTest(const Value& of, const Arguments& arguments) {
  ZF_ASSIGN_OR_RETURN(const int order, Ordered(of, arguments));
  return order < 0;
}
absl::StatusOr<bool> AtMostTest(const Value& of, const Arguments& arguments) {
  ZF_ASSIGN_OR_RETURN(const int order, Ordered(of, arguments));
  return order <= 0;
}
absl::StatusOr<bool> GreaterTest(const Value& of, const Arguments& arguments) {
  ZF_ASSIGN_OR_RETURN(const int order, Ordered(of, arguments));
  return order > 0;
}
absl::StatusOr<bool> AtLeastTest(const Value& of, const Arguments& arguments) {
  ZF_ASSIGN_OR_RETURN(const int order, Ordered(of, arguments));
  return order >= 0;
}
absl::StatusOr<bool> InTest(const Value& of, const Arguments& arguments) {
  ZF_ASSIGN_OR_RETURN(const Value* other, Operand(arguments));
  return Contains(*other, of);
}
absl::StatusOr<bool> OddTest(const Value& of, const Arguments&) {
  if (!of.is_integer() && !of.boolean()) return absl::InvalidArgumentError("odd and even take whole numbers");
  return of.integer() % 2 != 0;
}
absl::StatusOr<bool> EvenTest(const Value& of, const Arguments& arguments) {
  ZF_ASSIGN_OR_RETURN(const bool odd, OddTest(of, arguments));
  return !odd;
}
absl::StatusOr<bool> DivisibleTest(const Value& of, const Arguments& arguments) {
  ZF_ASSIGN_OR_RETURN(const Value* other, Operand(arguments));
  if (!of.is_integer() || !other->is_integer() || other->integer() == 0) {
    return absl::InvalidArgumentError("divisibleby takes whole numbers");
  }
  return other->integer() == -1 || of.integer() % other->integer() == 0;
}

struct TestRow {
  std::string_view name;
  Test test;
};
constexpr TestRow kTests[] = {
    {"defined", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return !of.undefined(); }},
    {"undefined", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return of.undefined(); }},
    {"none", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return of.none(); }},
    {"string", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return of.string() != nullptr; }},
    {"mapping", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return of.dict() != nullptr; }},
    {"iterable",
     [](const Value& of, const Arguments&) -> absl::StatusOr<bool> {
       return of.undefined() || of.string() != nullptr || of.list() != nullptr || of.dict() != nullptr;
     }},
    {"sequence",
     [](const Value& of, const Arguments&) -> absl::StatusOr<bool> {
       return of.undefined() || of.string() != nullptr || of.list() != nullptr || of.dict() != nullptr;
     }},
    {"number", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return of.number(); }},
    {"integer", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return of.is_integer(); }},
    {"float", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return of.is_float(); }},
    {"boolean", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return of.boolean(); }},
    {"true", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return of.boolean() && of.Truth(); }},
    {"false", [](const Value& of, const Arguments&) -> absl::StatusOr<bool> { return of.boolean() && !of.Truth(); }},
    {"odd", OddTest},
    {"even", EvenTest},
    {"equalto", EqualTest},
    {"eq", EqualTest},
    {"==", EqualTest},
    {"sameas", EqualTest},
    {"ne", UnequalTest},
    {"!=", UnequalTest},
    {"lt", LessTest},
    {"<", LessTest},
    {"lessthan", LessTest},
    {"le", AtMostTest},
    {"<=", AtMostTest},
    {"gt", GreaterTest},
    {">", GreaterTest},
    {"greaterthan", GreaterTest},
    {"ge", AtLeastTest},
    {">=", AtLeastTest},
    {"in", InTest},
    {"divisibleby", DivisibleTest},
};

}  // namespace

Function FindFilter(std::string_view name) {
  for (const FilterRow& row : kFilters) {
    if (row.name == name) return row.function;
  }
  return nullptr;
}

Test FindTest(std::string_view name) {
  for (const TestRow& row : kTests) {
    if (row.name == name) return row.test;
  }
  return nullptr;
}

}  // namespace zerofleet::text::jinja
