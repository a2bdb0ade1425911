// Elements, attributes and slices of values, as in Python; see jinja_builtins.h.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/text/jinja_builtins.h"
#include "worker/text/unicode.h"

namespace zerofleet::text::jinja {
namespace {

Value::List CharactersOf(const std::string& text) {
  Value::List characters;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = std::max<size_t>(1, CharacterAt(text, at).bytes);
    characters.push_back(Value::Of(text.substr(at, bytes)));
    at += bytes;
  }
  return characters;
}

absl::Status NoAttribute(const Value& of, const std::string& name) {
  return absl::InvalidArgumentError(of.undefined() ? absl::StrCat("\"", name, "\" is asked of what is undefined")
                                                   : absl::StrCat(of.TypeName(), " has no \"", name, "\""));
}

}  // namespace

absl::StatusOr<Value::List> Iterate(const Value& of) {
  if (of.undefined()) return Value::List();
  if (of.list() != nullptr) return *of.list();
  if (of.string() != nullptr) return CharactersOf(*of.string());
  if (of.dict() == nullptr) return absl::InvalidArgumentError(absl::StrCat(of.TypeName(), " cannot be iterated"));
  Value::List keys;
  for (const auto& [key, value] : *of.dict()) keys.push_back(Value::Of(key));
  return keys;
}

absl::StatusOr<Value> AttributeOf(const Value& of, std::string_view name) {
  if (of.undefined()) return NoAttribute(of, std::string(name));
  const Value* const found = of.Find(name);
  return found == nullptr ? Value() : *found;
}

absl::StatusOr<Value> ItemOf(const Value& of, const Value& index) {
  if (index.string() != nullptr) return AttributeOf(of, *index.string());
  if (of.undefined()) return NoAttribute(of, index.Print());
  if (!index.is_integer() && !index.boolean()) return Value();
  if (of.list() == nullptr && of.string() == nullptr) return Value();
  const Value::List characters = of.string() == nullptr ? Value::List() : CharactersOf(*of.string());
  const Value::List& elements = of.list() == nullptr ? characters : *of.list();
  const auto count = static_cast<int64_t>(elements.size());
  const int64_t at = index.integer() < 0 ? index.integer() + count : index.integer();
  return at < 0 || at >= count ? Value() : elements[static_cast<size_t>(at)];
}

absl::StatusOr<Value> SliceOf(const Value& of, const Value& begin, const Value& end, const Value& step) {
  if (of.list() == nullptr && of.string() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(of.TypeName(), " cannot be sliced"));
  }
  const auto given = [](const Value& value) { return !value.undefined() && !value.none(); };
  for (const Value* part : {&begin, &end, &step}) {
    if (given(*part) && !part->is_integer()) return absl::InvalidArgumentError("a slice is between whole numbers");
  }
  ZF_ASSIGN_OR_RETURN(const Value::List elements, Iterate(of));
  const auto count = static_cast<int64_t>(elements.size());
  const int64_t by = given(step) ? step.integer() : 1;
  if (by == 0) return absl::InvalidArgumentError("a slice's step is 0");
  const int64_t least = by > 0 ? 0 : -1, most = by > 0 ? count : count - 1;
  const auto place = [&](const Value& value, int64_t otherwise) {
    if (!given(value)) return otherwise;
    const int64_t at = std::clamp(value.integer(), -count - 1, count);
    return std::clamp(at < 0 ? at + count : at, least, most);
  };
  const int64_t first = place(begin, by > 0 ? 0 : count - 1), last = place(end, by > 0 ? count : -1);
  const int64_t stride = std::clamp(by, -count - 1, count + 1);
  Value::List chosen;
  for (int64_t i = first; by > 0 ? i < last : i > last; i += stride) {
    chosen.push_back(elements[static_cast<size_t>(i)]);
  }
  if (of.string() == nullptr) return Value::Of(std::move(chosen));
  std::string text;
  for (const Value& character : chosen) text += *character.string();
  return Value::Of(std::move(text));
}

absl::StatusOr<bool> Contains(const Value& of, const Value& what) {
  if (of.string() != nullptr) {
    if (what.string() != nullptr) return of.string()->find(*what.string()) != std::string::npos;
    return absl::InvalidArgumentError(absl::StrCat("a text contains texts, not ", what.TypeName()));
  }
  ZF_ASSIGN_OR_RETURN(const Value::List elements, Iterate(of));
  return std::find(elements.begin(), elements.end(), what) != elements.end();
}

}  // namespace zerofleet::text::jinja
