// JSON text from outside, parsed strictly: one value, valid UTF-8, no duplicate keys in an object, bounded nesting.
#ifndef ZEROFLEET_PROTO_JSON_PARSE_H_
#define ZEROFLEET_PROTO_JSON_PARSE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace zerofleet {

inline constexpr int kMaxJsonDepth = 32;

// InvalidArgument with the byte position if `text` is not such a JSON document. Numbers beyond 64 bits become doubles;
// beyond a double's range they are an error.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, int max_depth = kMaxJsonDepth);

}  // namespace zerofleet

#endif  // ZEROFLEET_PROTO_JSON_PARSE_H_
