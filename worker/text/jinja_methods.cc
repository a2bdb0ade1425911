// Methods and functions that a chat template can call; see jinja_builtins.h.
#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/text/jinja_builtins.h"
#include "worker/text/jinja_strings.h"
#include "worker/text/unicode.h"

namespace zerofleet::text::jinja {
namespace {

constexpr int64_t kLongestRange = 100'000;

// A text argument that may be missing or None, which gives null.
absl::StatusOr<const std::string*> TextOrNone(const Arguments& arguments, size_t position, std::string_view name) {
  const Value* const value = arguments.Get(position, name);
  if (value == nullptr || value->none() || value->undefined()) return nullptr;
  if (value->string() == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("takes a text, not ", value->TypeName()));
  return value->string();
}

absl::StatusOr<const std::string*> TextAt(const Arguments& arguments, size_t position, std::string_view name) {
  ZF_ASSIGN_OR_RETURN(const std::string* text, TextOrNone(arguments, position, name));
  if (text == nullptr) return absl::InvalidArgumentError("takes a text, which is missing");
  return text;
}

int64_t NumberOr(const Arguments& arguments, size_t position, std::string_view name, int64_t otherwise) {
  const Value* const value = arguments.Get(position, name);
  return value == nullptr || !value->number() ? otherwise : value->integer();
}

absl::StatusOr<Value> StrippedText(const Value& of, const Arguments& arguments, bool left, bool right) {
  ZF_ASSIGN_OR_RETURN(const std::string* which, TextOrNone(arguments, 0, ""));
  return Value::Of(std::string(Strip(*of.string(), which, left, right)));
}
absl::StatusOr<Value> StripMethod(const Value& of, const Arguments& arguments, std::time_t) {
  return StrippedText(of, arguments, true, true);
}
absl::StatusOr<Value> LeftStripMethod(const Value& of, const Arguments& arguments, std::time_t) {
  return StrippedText(of, arguments, true, false);
}
absl::StatusOr<Value> RightStripMethod(const Value& of, const Arguments& arguments, std::time_t) {
  return StrippedText(of, arguments, false, true);
}

absl::StatusOr<Value> Parts(const Value& of, const Arguments& arguments, bool from_right) {
  ZF_ASSIGN_OR_RETURN(const std::string* separator, TextOrNone(arguments, 0, "sep"));
  if (separator != nullptr && separator->empty()) return absl::InvalidArgumentError("an empty text separates nothing");
  Value::List parts;
  for (std::string& part : SplitText(*of.string(), separator, NumberOr(arguments, 1, "maxsplit", -1), from_right)) {
    parts.push_back(Value::Of(std::move(part)));
  }
  return Value::Of(std::move(parts));
}
absl::StatusOr<Value> SplitMethod(const Value& of, const Arguments& arguments, std::time_t) {
  return Parts(of, arguments, false);
}
absl::StatusOr<Value> RightSplitMethod(const Value& of, const Arguments& arguments, std::time_t) {
  return Parts(of, arguments, true);
}

absl::StatusOr<Value> SplitLinesMethod(const Value& of, const Arguments&, std::time_t) {
  Value::List lines;
  const std::string newline = "\n";
  for (std::string& line : SplitText(*of.string(), &newline, -1, false)) lines.push_back(Value::Of(std::move(line)));
  if (lines.back().string()->empty()) lines.pop_back();
  return Value::Of(std::move(lines));
}

// Whether `of` begins (`front`) or ends with a text, or with one of a list of texts.
absl::StatusOr<Value> AtEnd(const Value& of, const Arguments& arguments, bool front) {
  const Value* const what = arguments.Get(0, "");
  const Value::List candidates = what == nullptr           ? Value::List()
                                 : what->list() != nullptr ? *what->list()
                                                           : Value::List{*what};
  for (const Value& candidate : candidates) {
    if (candidate.string() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("takes a text, not ", candidate.TypeName()));
    }
    if (front ? absl::StartsWith(*of.string(), *candidate.string())
              : absl::EndsWith(*of.string(), *candidate.string())) {
      return Value::Of(true);
    }
  }
  return Value::Of(false);
}
absl::StatusOr<Value> StartsWithMethod(const Value& of, const Arguments& arguments, std::time_t) {
  return AtEnd(of, arguments, true);
}
absl::StatusOr<Value> EndsWithMethod(const Value& of, const Arguments& arguments, std::time_t) {
  return AtEnd(of, arguments, false);
}

absl::StatusOr<Value> ReplaceMethod(const Value& of, const Arguments& arguments, std::time_t) {
  ZF_ASSIGN_OR_RETURN(const std::string* from, TextAt(arguments, 0, "old"));
  ZF_ASSIGN_OR_RETURN(const std::string* to, TextAt(arguments, 1, "new"));
  if (from->empty()) return absl::InvalidArgumentError("replacing the empty text is not supported");
  const auto most = static_cast<size_t>(Value::kHeaviest);
  if (to->size() > from->size() && of.string()->size() / from->size() > most / to->size()) {
    return absl::InvalidArgumentError("the text that it makes may be too long");
  }
  return Value::Of(ReplaceText(*of.string(), *from, *to, NumberOr(arguments, 2, "count", -1)));
}

absl::StatusOr<Value> UpperMethod(const Value& of, const Arguments&, std::time_t) {
  return Value::Of(UpperCase(*of.string()));
}
absl::StatusOr<Value> LowerMethod(const Value& of, const Arguments&, std::time_t) {
  return Value::Of(LowerCase(*of.string()));
}
absl::StatusOr<Value> TitleMethod(const Value& of, const Arguments&, std::time_t) {
  return Value::Of(Capitals(*of.string(), true));
}
absl::StatusOr<Value> CapitalizeMethod(const Value& of, const Arguments&, std::time_t) {
  return Value::Of(Capitals(*of.string(), false));
}

absl::StatusOr<Value> FindMethodOfText(const Value& of, const Arguments& arguments, std::time_t) {
  ZF_ASSIGN_OR_RETURN(const std::string* what, TextAt(arguments, 0, ""));
  const size_t at = of.string()->find(*what);
  if (at == std::string::npos) return Value::Of(int64_t{-1});
  int64_t characters = 0;
  for (size_t i = 0; i < at; i += std::max<size_t>(1, CharacterAt(*of.string(), i).bytes)) ++characters;
  return Value::Of(characters);
}

absl::StatusOr<Value> CountMethod(const Value& of, const Arguments& arguments, std::time_t) {
  ZF_ASSIGN_OR_RETURN(const std::string* what, TextAt(arguments, 0, ""));
  if (what->empty()) return absl::InvalidArgumentError("counting the empty text is not supported");
  return Value::Of(static_cast<int64_t>(SplitText(*of.string(), what, -1, false).size()) - 1);
}

absl::StatusOr<Value> JoinMethod(const Value& of, const Arguments& arguments, std::time_t) {
  const Value* const parts = arguments.Get(0, "");
  if (parts == nullptr) return absl::InvalidArgumentError("join takes a list, which is missing");
  ZF_ASSIGN_OR_RETURN(const Value::List texts, Iterate(*parts));
  std::string joined;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].string() == nullptr) return absl::InvalidArgumentError("join takes a list of texts");
    absl::StrAppend(&joined, i > 0 ? *of.string() : "", *texts[i].string());
    if (static_cast<int64_t>(joined.size()) > Value::kHeaviest) return absl::InvalidArgumentError("a text is too long");
  }
  return Value::Of(std::move(joined));
}

absl::StatusOr<Value> IsDigitMethod(const Value& of, const Arguments&, std::time_t) {
  const std::string& text = *of.string();
  return Value::Of(!text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }));
}

absl::StatusOr<Value> ItemsMethod(const Value& of, const Arguments&, std::time_t) {
  Value::List items;
  for (const auto& [key, value] : *of.dict()) items.push_back(Value::Of(Value::List{Value::Of(key), value}));
  return Value::Of(std::move(items));
}
absl::StatusOr<Value> KeysMethod(const Value& of, const Arguments&, std::time_t) {
  ZF_ASSIGN_OR_RETURN(Value::List keys, Iterate(of));
  return Value::Of(std::move(keys));
}
absl::StatusOr<Value> ValuesMethod(const Value& of, const Arguments&, std::time_t) {
  Value::List values;
  for (const auto& [key, value] : *of.dict()) values.push_back(value);
  return Value::Of(std::move(values));
}
absl::StatusOr<Value> GetMethod(const Value& of, const Arguments& arguments, std::time_t) {
  const Value *const key = arguments.Get(0, "key"), *const otherwise = arguments.Get(1, "default");
  if (key == nullptr) return absl::InvalidArgumentError("get takes a key, which is missing");
  const Value* const found = key->string() == nullptr ? nullptr : of.Find(*key->string());
  if (found != nullptr) return *found;
  return otherwise == nullptr ? Value::MakeNone() : *otherwise;
}

absl::StatusOr<Value> NamespaceFunction(const Value&, const Arguments& arguments, std::time_t) {
  for (const auto& [name, value] : arguments.keywords) {
    if (value.depth() > Value::kDeepest) return absl::InvalidArgumentError("a namespace cannot hold one");
  }
  return Value::MakeNamespace(arguments.keywords);
}

absl::StatusOr<Value> DictFunction(const Value&, const Arguments& arguments, std::time_t) {
  if (!arguments.positional.empty()) return absl::InvalidArgumentError("dict takes names alone");
  return Value::Of(arguments.keywords);
}

absl::StatusOr<Value> RangeFunction(const Value&, const Arguments& arguments, std::time_t) {
  const size_t count = arguments.positional.size();
  for (const Value& value : arguments.positional) {
    if (!value.is_integer()) return absl::InvalidArgumentError("range takes whole numbers");
  }
  if (count == 0 || count > 3) return absl::InvalidArgumentError("range takes one to three numbers");
  const int64_t first = count == 1 ? 0 : arguments.positional[0].integer();
  const int64_t last = arguments.positional[count == 1 ? 0 : 1].integer();
  const int64_t step = count == 3 ? arguments.positional[2].integer() : 1;
  if (step == 0) return absl::InvalidArgumentError("range takes a step that is not 0");
  const double steps = std::ceil((static_cast<double>(last) - static_cast<double>(first)) / static_cast<double>(step));
  if (steps > static_cast<double>(kLongestRange)) return absl::InvalidArgumentError("a range is too long");
  Value::List numbers;
  for (int64_t i = 0; i < static_cast<int64_t>(steps); ++i) numbers.push_back(Value::Of(first + i * step));
  return Value::Of(std::move(numbers));
}

absl::StatusOr<Value> RaiseFunction(const Value&, const Arguments& arguments, std::time_t) {
  const Value* const message = arguments.Get(0, "message");
  return absl::InvalidArgumentError(
      absl::StrCat("the template says: ", message == nullptr ? std::string("no reason") : message->Print()));
}

absl::StatusOr<Value> TimeFunction(const Value&, const Arguments& arguments, std::time_t now) {
  ZF_ASSIGN_OR_RETURN(const std::string* format, TextAt(arguments, 0, "format"));
  if (format->size() > 100) return absl::InvalidArgumentError("a format of a time is too long");
  std::tm parts = {};
  if (localtime_r(&now, &parts) == nullptr) return absl::InvalidArgumentError("the time is not known");
  char text[4096];
  return Value::Of(std::string(text, std::strftime(text, sizeof text, format->c_str(), &parts)));
}

struct CallableRow {
  std::string_view name;
  Function function;
};

constexpr CallableRow kTextMethods[] = {
    {"strip", StripMethod},     {"lstrip", LeftStripMethod},      {"rstrip", RightStripMethod},
    {"split", SplitMethod},     {"rsplit", RightSplitMethod},     {"splitlines", SplitLinesMethod},
    {"upper", UpperMethod},     {"lower", LowerMethod},           {"title", TitleMethod},
    {"replace", ReplaceMethod}, {"startswith", StartsWithMethod}, {"endswith", EndsWithMethod},
    {"find", FindMethodOfText}, {"count", CountMethod},           {"capitalize", CapitalizeMethod},
    {"join", JoinMethod},       {"isdigit", IsDigitMethod},
};
constexpr CallableRow kDictMethods[] = {
    {"items", ItemsMethod}, {"keys", KeysMethod}, {"values", ValuesMethod}, {"get", GetMethod}};
constexpr CallableRow kFunctions[] = {{"namespace", NamespaceFunction},
                                      {"dict", DictFunction},
                                      {"range", RangeFunction},
                                      {"raise_exception", RaiseFunction},
                                      {"strftime_now", TimeFunction}};

template <size_t rows>
Function RowOf(const CallableRow (&table)[rows], std::string_view name) {
  for (const CallableRow& row : table) {
    if (row.name == name) return row.function;
  }
  return nullptr;
}

}  // namespace

const Value* Arguments::Get(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [keyword, value] : keywords) {
    if (!name.empty() && keyword == name) return &value;
  }
  return nullptr;
}

Arguments Arguments::Behind(size_t count) const {
  const auto left_out = static_cast<int64_t>(std::min(count, positional.size()));
  return {{positional.begin() + left_out, positional.end()}, keywords};
}

Function FindMethod(const Value& of, std::string_view name) {
  if (of.string() != nullptr) return RowOf(kTextMethods, name);
  return of.dict() == nullptr ? nullptr : RowOf(kDictMethods, name);
}

Function FindFunction(std::string_view name) { return RowOf(kFunctions, name); }

}  // namespace zerofleet::text::jinja
