// The mapping of json.h from message to JSON, and from text to the reader in json_read.cc.
#include "proto/json.h"

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "proto/json_parse.h"

namespace zerofleet {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::ordered_json;

// The value of a singular field (index < 0) or of one element of a repeated one.
ordered_json FieldValue(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection* reflection = message.GetReflection();
  const bool one = index < 0;
  std::string scratch;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? reflection->GetInt32(message, field) : reflection->GetRepeatedInt32(message, field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? reflection->GetInt64(message, field) : reflection->GetRepeatedInt64(message, field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? reflection->GetUInt32(message, field) : reflection->GetRepeatedUInt32(message, field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? reflection->GetUInt64(message, field) : reflection->GetRepeatedUInt64(message, field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? reflection->GetDouble(message, field) : reflection->GetRepeatedDouble(message, field, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return one ? reflection->GetFloat(message, field) : reflection->GetRepeatedFloat(message, field, index);
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? reflection->GetBool(message, field) : reflection->GetRepeatedBool(message, field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return one ? reflection->GetEnum(message, field)->name()
                 : reflection->GetRepeatedEnum(message, field, index)->name();
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string& text = one ? reflection->GetStringReference(message, field, &scratch)
                                    : reflection->GetRepeatedStringReference(message, field, index, &scratch);
      if (field->type() == FieldDescriptor::TYPE_BYTES) return absl::Base64Escape(text);
      return text;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ProtoToJson(one ? reflection->GetMessage(message, field)
                             : reflection->GetRepeatedMessage(message, field, index));
  }
  return nullptr;
}

// A map's entries as an object; keys of other types than string are printed as their digits.
ordered_json MapValue(const Message& message, const FieldDescriptor* field) {
  const Reflection* reflection = message.GetReflection();
  const FieldDescriptor* key_field = field->message_type()->map_key();
  const FieldDescriptor* value_field = field->message_type()->map_value();
  nlohmann::json sorted = nlohmann::json::object();  // a hash map's own order differs from run to run
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    const Message& entry = reflection->GetRepeatedMessage(message, field, i);
    ordered_json key = FieldValue(entry, key_field, -1);
    sorted[key.is_string() ? key.get<std::string>() : key.dump()] = FieldValue(entry, value_field, -1);
  }
  return sorted;
}

ordered_json ArrayValue(const Message& message, const FieldDescriptor* field) {
  ordered_json array = ordered_json::array();
  const int size = message.GetReflection()->FieldSize(message, field);
  for (int i = 0; i < size; ++i) array.push_back(FieldValue(message, field, i));
  return array;
}

}  // namespace

ordered_json ProtoToJson(const Message& message) {
  ordered_json object = ordered_json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    ordered_json& value = object[field->name()];
    if (field->is_map()) {
      value = MapValue(message, field);
    } else if (field->is_repeated()) {
      value = ArrayValue(message, field);
    } else if (!field->has_presence() || message.GetReflection()->HasField(message, field)) {
      value = FieldValue(message, field, -1);
    }
  }
  return object;
}

std::string DumpJson(const ordered_json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

absl::Status JsonToProto(std::string_view text, Message* message) {
  ZF_ASSIGN_OR_RETURN(nlohmann::json json, ParseJson(text));
  return ParsedJsonToProto(json, message);
}

}  // namespace zerofleet
