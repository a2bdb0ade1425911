// What a chat template can call: filters, tests, methods of strings and dictionaries, functions. A row of a table each.
#ifndef ZEROFLEET_WORKER_TEXT_JINJA_BUILTINS_H_
#define ZEROFLEET_WORKER_TEXT_JINJA_BUILTINS_H_

#include <ctime>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/text/jinja_value.h"

namespace zerofleet::text::jinja {

struct Arguments {
  std::vector<Value> positional;
  Value::Dict keywords;

  // The argument that stands there or has this name; null without. `name` may be empty.
  const Value* Get(size_t position, std::string_view name) const;
  // All but the first `count` of those without names.
  Arguments Behind(size_t count) const;
};

// Errors say what is wrong, and no line. `now` is the clock of strftime_now.
using Function = absl::StatusOr<Value> (*)(const Value& of, const Arguments& arguments, std::time_t now);
using Test = absl::StatusOr<bool> (*)(const Value& of, const Arguments& arguments);

// Null for names that are not supported.
Function FindFilter(std::string_view name);
Test FindTest(std::string_view name);
// A method of `of`, which is a string, a dictionary or a list.
Function FindMethod(const Value& of, std::string_view name);
// `of` is not used.
Function FindFunction(std::string_view name);

// What a loop goes through: elements, keys, characters; nothing where there is no value.
absl::StatusOr<Value::List> Iterate(const Value& of);
// of.attribute, and of[index]; undefined where there is none.
absl::StatusOr<Value> AttributeOf(const Value& of, std::string_view name);
absl::StatusOr<Value> ItemOf(const Value& of, const Value& index);
absl::StatusOr<Value> SliceOf(const Value& of, const Value& begin, const Value& end, const Value& step);
absl::StatusOr<bool> Contains(const Value& of, const Value& what);

}  // namespace zerofleet::text::jinja

#endif  // ZEROFLEET_WORKER_TEXT_JINJA_BUILTINS_H_
