// Protocol messages as JSON and back, by reflection: reports, status documents and manifests share this one mapping.
//
// Keys are the proto field names, in the order of the .proto file. Integers of any width are JSON numbers, doubles are
// printed so that they read back exactly, enums are their names, bytes are base64, maps are objects, repeated fields
// are arrays. Every field is present: a scalar that was never set is its default, an unset optional, message or
// oneof field is null. A NaN or an infinity, which JSON cannot represent, is printed as null.
#ifndef ZEROFLEET_PROTO_JSON_H_
#define ZEROFLEET_PROTO_JSON_H_

#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace zerofleet {

nlohmann::ordered_json ProtoToJson(const google::protobuf::Message& message);

// JSON as text; on one line if `indent` < 0. Bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string DumpJson(const nlohmann::ordered_json& json, int indent = -1);

// Fills `message`, which is cleared first. Strict: an unknown key, a value of the wrong type, a number out of the
// field's range or a key repeated is InvalidArgument naming the path ("config.model.layers"). A key left out keeps its
// default, as in protocol buffers; null unsets what ProtoToJson prints as null and is an error elsewhere.
absl::Status JsonToProto(std::string_view text, google::protobuf::Message* message);
absl::Status ParsedJsonToProto(const nlohmann::json& json, google::protobuf::Message* message);

// InvalidArgument naming the path of the first key that ProtoToJson would have printed for this message type but `json`
// lacks. Fields named in `except` may be absent or incomplete, at any depth. Values are not judged.
absl::Status CheckEveryKeyPresent(const nlohmann::json& json, const google::protobuf::Descriptor& type,
                                  const std::set<std::string>& except = {});

}  // namespace zerofleet

#endif  // ZEROFLEET_PROTO_JSON_H_
