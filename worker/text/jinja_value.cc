// Values, printed and compared as Python does; see jinja_value.h.
#include "worker/text/jinja_value.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "proto/json.h"

namespace zerofleet::text::jinja {
namespace {

constexpr int64_t kOfElement = 8, kNoWeight = int64_t{1} << 60;  // far above any limit, and no overflow

std::string PrintReal(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return DumpJson(nlohmann::ordered_json(value));
}

// `text` in quotation marks, which are chosen as in Python.
std::string Quoted(const std::string& text) {
  const bool doubled = text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = doubled ? '"' : '\'';
  std::string quoted(1, quote);
  for (const char c : text) {
    switch (c) {
      case '\n': quoted += "\\n"; break;
      case '\r': quoted += "\\r"; break;
      case '\t': quoted += "\\t"; break;
      case '\\': quoted += "\\\\"; break;
      default:
        if (c == quote) quoted += '\\';
        quoted += c;
    }
  }
  return quoted + quote;
}

}  // namespace

Value Value::Of(std::string value) {
  const auto weight = static_cast<int64_t>(value.size()) + 1;
  return Value(Data(std::make_shared<const std::string>(std::move(value))), 0, weight);
}

Value Value::Of(List list) {
  int depth = 0;
  int64_t weight = 1;
  for (const Value& value : list) {
    depth = std::max(depth, value.depth());
    weight = std::min(weight + value.weight() + kOfElement, kNoWeight);
  }
  return Value(Data(std::make_shared<const List>(std::move(list))), depth + 1, weight);
}

Value Value::Of(Dict dict) {
  int depth = 0;
  int64_t weight = 1;
  for (const auto& [key, value] : dict) {
    depth = std::max(depth, value.depth());
    weight = std::min(weight + value.weight() + static_cast<int64_t>(key.size()) + kOfElement, kNoWeight);
  }
  return Value(Data(std::make_shared<const Dict>(std::move(dict))), depth + 1, weight);
}

Value Value::MakeNamespace(Dict attributes) {
  return Value(Data(std::make_shared<Namespace>(Namespace{std::move(attributes)})), kDeepest + 1);
}

Value Value::Of(const nlohmann::ordered_json& json) {
  if (json.is_null()) return MakeNone();
  if (json.is_boolean()) return Of(json.get<bool>());
  if (json.is_number_integer()) return Of(json.get<int64_t>());
  if (json.is_number()) return Of(json.get<double>());
  if (json.is_string()) return Of(json.get<std::string>());
  if (json.is_array()) {
    List list;
    for (const auto& element : json) list.push_back(Of(element));
    return Of(std::move(list));
  }
  Dict dict;
  for (const auto& [key, element] : json.items()) dict.emplace_back(key, Of(element));
  return Of(std::move(dict));
}

Value::Namespace* Value::space() const {
  const auto* held = std::get_if<std::shared_ptr<Namespace>>(&data_);
  return held == nullptr ? nullptr : held->get();
}

int64_t Value::integer() const {
  if (const bool* value = std::get_if<bool>(&data_)) return *value ? 1 : 0;
  if (const int64_t* value = std::get_if<int64_t>(&data_)) return *value;
  const double* value = std::get_if<double>(&data_);
  return value == nullptr || !(std::abs(*value) < 9e18) ? 0 : static_cast<int64_t>(*value);
}

double Value::real() const {
  const double* value = std::get_if<double>(&data_);
  return value == nullptr ? static_cast<double>(integer()) : *value;
}

bool Value::Truth() const {
  if (undefined() || none()) return false;
  if (number()) return real() != 0;
  if (const std::string* text = string()) return !text->empty();
  if (const List* values = list()) return !values->empty();
  if (const Dict* entries = dict()) return !entries->empty();
  return true;
}

std::string Value::Print() const {
  if (undefined()) return "";
  if (const std::string* text = string()) return *text;
  return Represent();
}

std::string Value::Represent() const {
  if (undefined()) return "Undefined";
  if (none()) return "None";
  if (boolean()) return Truth() ? "True" : "False";
  if (is_integer()) return absl::StrCat(integer());
  if (is_float()) return PrintReal(real());
  if (const std::string* text = string()) return Quoted(*text);
  std::string printed;
  if (const List* values = list()) {
    for (const Value& value : *values) absl::StrAppend(&printed, printed.empty() ? "" : ", ", value.Represent());
    return absl::StrCat("[", printed, "]");
  }
  if (const Dict* entries = dict()) {
    for (const auto& [key, value] : *entries) {
      absl::StrAppend(&printed, printed.empty() ? "" : ", ", Quoted(key), ": ", value.Represent());
    }
    return absl::StrCat("{", printed, "}");
  }
  return macro() != nullptr ? "<Macro>" : "<Namespace>";
}

std::string Value::ToJson(int indent) const {
  std::string json;
  AppendJson(indent, 0, json);
  return json;
}

void Value::AppendJson(int indent, int level, std::string& to) const {
  if (is_float() || is_integer()) {
    to += Represent();
    return;
  }
  const List* const values = list();
  const Dict* const entries = dict();
  if (values == nullptr && entries == nullptr) {
    to += boolean() ? (Truth() ? "true" : "false") : string() == nullptr ? "null" : DumpJson(*string());
    return;
  }
  const size_t count = values != nullptr ? values->size() : entries->size();
  const auto new_line = [&](int depth) {
    if (indent >= 0) to.append(1, '\n').append(static_cast<size_t>(depth) * static_cast<size_t>(indent), ' ');
  };
  to += values != nullptr ? '[' : '{';
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) to += indent >= 0 ? "," : ", ";
    new_line(level + 1);
    if (entries != nullptr) absl::StrAppend(&to, DumpJson((*entries)[i].first), ": ");
    (values != nullptr ? (*values)[i] : (*entries)[i].second).AppendJson(indent, level + 1, to);
  }
  if (count > 0) new_line(level);
  to += values != nullptr ? ']' : '}';
}

const char* Value::TypeName() const {
  constexpr const char* kNames[] = {"Undefined", "NoneType", "bool", "int",       "float",
                                    "str",       "list",     "dict", "Namespace", "Macro"};
  return kNames[data_.index()];
}

const Value* Value::Find(std::string_view key) const {
  const Dict* entries = dict();
  if (const Namespace* held = space()) entries = &held->attributes;
  if (entries == nullptr) return nullptr;
  for (const auto& [name, value] : *entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

bool operator==(const Value& a, const Value& b) {
  if (a.number() && b.number()) return a.is_float() || b.is_float() ? a.real() == b.real() : a.integer() == b.integer();
  if (a.data_.index() != b.data_.index()) return false;
  if (a.undefined() || a.none()) return true;
  if (a.string() != nullptr) return *a.string() == *b.string();
  if (a.list() != nullptr) return *a.list() == *b.list();
  if (a.macro() != nullptr) return a.macro()->definition == b.macro()->definition;
  if (a.space() != nullptr) return a.space() == b.space();
  if (a.dict()->size() != b.dict()->size()) return false;
  return std::all_of(a.dict()->begin(), a.dict()->end(), [&](const auto& entry) {
    const Value* other = b.Find(entry.first);
    return other != nullptr && entry.second == *other;
  });
}

int Compare(const Value& a, const Value& b) {
  if (a.number() && b.number()) {
    if (a == b) return 0;
    return a.real() < b.real() ? -1 : 1;
  }
  if (a.string() == nullptr || b.string() == nullptr) return 2;
  const int order = a.string()->compare(*b.string());
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

}  // namespace zerofleet::text::jinja
