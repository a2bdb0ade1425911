// JSON text from outside, parsed strictly: one value, valid UTF-8, no duplicate keys in an object, bounded nesting.
#ifndef ZEROFLEET_PROTO_JSON_PARSE_H_
#define ZEROFLEET_PROTO_JSON_PARSE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace zerofleet {

inline constexpr int kMaxJsonDepth = 32;

// InvalidArgument with the byte position if `text` is not such a JSON document. Numbers beyond 64 bits become doubles;
// beyond a double's range they are an error. A text of more than `max_keys` keys, all objects' together, is refused
// at the first that is too many, before a value is built.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, int max_depth = kMaxJsonDepth,
                                         int64_t max_keys = INT64_MAX);

}  // namespace zerofleet

#endif  // ZEROFLEET_PROTO_JSON_PARSE_H_
