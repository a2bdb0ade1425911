// What a chat template can call: filters, tests, methods of strings and dictionaries, functions. Each is a row of a
// table.
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

  // The argument at this position or with this name; null if there is none. `name` may be empty.
  const Value* Get(size_t position, std::string_view name) const;
  // The arguments without the first `count` positional ones.
  Arguments Behind(size_t count) const;
};

// Errors say what is wrong, without a line number. `now` is the time of strftime_now.
using Function = absl::StatusOr<Value> (*)(const Value& of, const Arguments& arguments, std::time_t now);
using Test = absl::StatusOr<bool> (*)(const Value& of, const Arguments& arguments);

// Null for names that are not supported.
Function FindFilter(std::string_view name);
Test FindTest(std::string_view name);
// Finds a method of `of`, which is a string, a dictionary or a list.
Function FindMethod(const Value& of, std::string_view name);
// Such a function does not use `of`.
Function FindFunction(std::string_view name);

// The values that a loop visits: elements, keys or characters; none if `of` is undefined.
absl::StatusOr<Value::List> Iterate(const Value& of);
// of.name and of[index]; undefined if there is no such entry.
absl::StatusOr<Value> AttributeOf(const Value& of, std::string_view name);
absl::StatusOr<Value> ItemOf(const Value& of, const Value& index);
absl::StatusOr<Value> SliceOf(const Value& of, const Value& begin, const Value& end, const Value& step);
absl::StatusOr<bool> Contains(const Value& of, const Value& what);

}  // namespace zerofleet::text::jinja

#endif  // ZEROFLEET_WORKER_TEXT_JINJA_BUILTINS_H_
