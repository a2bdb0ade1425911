// Values of chat templates, which behave like Python's. They do not change once made, except namespaces, which no other
// value may hold: so there are no cycles, and nesting is bounded.
#ifndef ZEROFLEET_WORKER_TEXT_JINJA_VALUE_H_
#define ZEROFLEET_WORKER_TEXT_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proto/json.h"

namespace zerofleet::text::jinja {

struct Node;

class Value {
 public:
  using List = std::vector<Value>;
  using Dict = std::vector<std::pair<std::string, Value>>;  // in the order of insertion
  struct Undefined {};
  struct None {};
  struct Namespace {
    Dict attributes;
  };
  struct Macro {
    const Node* definition;
  };

  static constexpr int kDeepest = 100;                     // nesting of lists and dictionaries
  static constexpr int64_t kHeaviest = int64_t{16} << 20;  // weight of values that a template makes

  Value() = default;  // undefined
  static Value MakeNone() { return Value(Data(None())); }
  static Value Of(bool value) { return Value(Data(value)); }
  static Value Of(int64_t value) { return Value(Data(value)); }
  static Value Of(double value) { return Value(Data(value)); }
  static Value Of(std::string value);
  static Value Of(const char* value) { return Of(std::string(value)); }
  static Value Of(List list);
  static Value Of(Dict dict);
  static Value Of(Macro macro) { return Value(Data(macro)); }
  static Value MakeNamespace(Dict attributes);
  // Objects keep the order of their keys.
  static Value Of(const nlohmann::ordered_json& json);

  bool undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool none() const { return std::holds_alternative<None>(data_); }
  bool boolean() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool number() const { return boolean() || is_integer() || is_float(); }
  // The value if it has this type, else null.
  const std::string* string() const { return Shared<std::string>(); }
  const List* list() const { return Shared<List>(); }
  const Dict* dict() const { return Shared<Dict>(); }
  const Macro* macro() const { return std::get_if<Macro>(&data_); }
  Namespace* space() const;

  // The value as a number; a bool is 0 or 1.
  int64_t integer() const;
  double real() const;

  // The nesting depth of lists and dictionaries; more than kDeepest for a value that holds a namespace.
  int depth() const { return depth_; }
  // Approximate size in bytes, where shared values count each time they occur; printing takes time in proportion.
  int64_t weight() const { return weight_; }

  bool Truth() const;
  // What `{{ value }}` prints.
  std::string Print() const;
  // Like json.dumps(value, ensure_ascii=False, indent=...); on one line if `indent` < 0.
  std::string ToJson(int indent = -1) const;
  // Python's name for the value's type.
  const char* TypeName() const;

  // The entry of a dictionary or namespace; null if there is none.
  const Value* Find(std::string_view key) const;

  friend bool operator==(const Value& a, const Value& b);

 private:
  using Data =
      std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>, Macro>;
  explicit Value(Data data, int depth = 0, int64_t weight = 1)
      : data_(std::move(data)), depth_(depth), weight_(weight) {}

  template <typename T>
  const T* Shared() const {
    const auto* held = std::get_if<std::shared_ptr<const T>>(&data_);
    return held == nullptr ? nullptr : held->get();
  }
  std::string Represent() const;  // like Python's repr
  void AppendJson(int indent, int level, std::string& to) const;

  Data data_;
  int depth_ = 0;
  int64_t weight_ = 1;
};

// Returns -1, 0 or 1 for two numbers or two strings; 2 for values that have no order.
int Compare(const Value& a, const Value& b);

}  // namespace zerofleet::text::jinja

#endif  // ZEROFLEET_WORKER_TEXT_JINJA_VALUE_H_
