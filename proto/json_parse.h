// JSON text from outside, parsed strictly: one value, valid UTF-8, no duplicate keys in an object, bounded nesting.
#ifndef ZEROFLEET_PROTO_JSON_PARSE_H_
#define ZEROFLEET_PROTO_JSON_PARSE_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace zerofleet {

inline constexpr int kMaxJsonDepth = 32;

// InvalidArgument with the byte position if `text` is not a JSON document as described above. Numbers beyond 64 bits
// become doubles; beyond a double's range they are an error. A text with more than `max_keys` keys, over all objects,
// is refused at the first key beyond them, before its value is built.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, int max_depth = kMaxJsonDepth,
                                         int64_t max_keys = INT64_MAX);

}  // namespace zerofleet

#endif  // ZEROFLEET_PROTO_JSON_PARSE_H_
