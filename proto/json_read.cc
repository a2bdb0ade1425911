// The mapping of json.h from a JSON value to a message.
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/cut_text.h"
#include "base/status.h"
#include "proto/json.h"

namespace zerofleet {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::json;

absl::Status Wrong(const std::string& path, const std::string& expected, const json& value) {
  std::string found = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (found.size() > 40) found = absl::StrCat(CutText(found, 40), "...");
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", expected, " expected, found ", found));
}

template <typename T>
absl::StatusOr<T> Integer(const json& value, const std::string& path) {
  constexpr T kMin = std::numeric_limits<T>::min(), kMax = std::numeric_limits<T>::max();
  if (value.is_number_unsigned()) {  // the library parses every non-negative integer as unsigned
    uint64_t number = value.get<uint64_t>();
    if (number <= static_cast<uint64_t>(kMax)) return static_cast<T>(number);
  } else if (value.is_number_integer()) {
    int64_t number = value.get<int64_t>();
    if (number >= 0 ? static_cast<uint64_t>(number) <= static_cast<uint64_t>(kMax)
                    : static_cast<int64_t>(kMin) <= number && kMin != 0) {
      return static_cast<T>(number);
    }
  }
  return Wrong(path, absl::StrCat("an integer from ", kMin, " to ", kMax), value);
}

// Sets a scalar field, or adds to a repeated one.
template <typename T>
void Put(Message* message, const FieldDescriptor* field, T value,
         void (Reflection::*set)(Message*, const FieldDescriptor*, T) const,
         void (Reflection::*add)(Message*, const FieldDescriptor*, T) const) {
  (message->GetReflection()->*(field->is_repeated() ? add : set))(message, field, std::move(value));
}

absl::Status ReadMessage(const json& value, const std::string& path, Message* message);

absl::Status ReadString(const json& value, const std::string& path, const FieldDescriptor* field, Message* message) {
  if (!value.is_string()) return Wrong(path, "a string", value);
  std::string text = value.get<std::string>();
  std::string bytes;
  if (field->type() == FieldDescriptor::TYPE_BYTES) {
    if (!absl::Base64Unescape(text, &bytes)) return Wrong(path, "base64", value);
    text = bytes;
  }
  Put<std::string>(message, field, text, &Reflection::SetString, &Reflection::AddString);
  return absl::OkStatus();
}

absl::Status ReadEnum(const json& value, const std::string& path, const FieldDescriptor* field, Message* message) {
  const EnumValueDescriptor* found =
      value.is_string() ? field->enum_type()->FindValueByName(value.get<std::string>()) : nullptr;
  if (found == nullptr) return Wrong(path, absl::StrCat("a name of ", field->enum_type()->name()), value);
  Put<const EnumValueDescriptor*>(message, field, found, &Reflection::SetEnum, &Reflection::AddEnum);
  return absl::OkStatus();
}

absl::Status ReadFloating(const json& value, const std::string& path, const FieldDescriptor* field, Message* message) {
  if (!value.is_number()) return Wrong(path, "a number", value);
  double number = value.get<double>();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    Put<double>(message, field, number, &Reflection::SetDouble, &Reflection::AddDouble);
    return absl::OkStatus();
  }
  if (std::abs(number) > std::numeric_limits<float>::max()) return Wrong(path, "a single-precision number", value);
  Put<float>(message, field, static_cast<float>(number), &Reflection::SetFloat, &Reflection::AddFloat);
  return absl::OkStatus();
}

template <typename T>
absl::Status ReadInteger(const json& value, const std::string& path, const FieldDescriptor* field, Message* message,
                         void (Reflection::*set)(Message*, const FieldDescriptor*, T) const,
                         void (Reflection::*add)(Message*, const FieldDescriptor*, T) const) {
  ZF_ASSIGN_OR_RETURN(T number, Integer<T>(value, path));
  Put<T>(message, field, number, set, add);
  return absl::OkStatus();
}

// One value into a singular field, or appended to a repeated one.
absl::Status ReadValue(const json& value, const std::string& path, const FieldDescriptor* field, Message* message) {
  const Reflection* reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return ReadInteger<int32_t>(value, path, field, message, &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return ReadInteger<int64_t>(value, path, field, message, &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return ReadInteger<uint32_t>(value, path, field, message, &Reflection::SetUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return ReadInteger<uint64_t>(value, path, field, message, &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: return ReadFloating(value, path, field, message);
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!value.is_boolean()) return Wrong(path, "true or false", value);
      Put<bool>(message, field, value.get<bool>(), &Reflection::SetBool, &Reflection::AddBool);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_ENUM: return ReadEnum(value, path, field, message);
    case FieldDescriptor::CPPTYPE_STRING: return ReadString(value, path, field, message);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ReadMessage(
          value, path,
          field->is_repeated() ? reflection->AddMessage(message, field) : reflection->MutableMessage(message, field));
  }
  return absl::InternalError(absl::StrCat(path, ": a field of unknown type"));
}

absl::Status ReadMap(const json& value, const std::string& path, const FieldDescriptor* field, Message* message) {
  if (!value.is_object()) return Wrong(path, "an object", value);
  const FieldDescriptor* key_field = field->message_type()->map_key();
  for (const auto& [name, element] : value.items()) {
    const std::string element_path = absl::StrCat(path, "['", name, "']");
    Message* entry = message->GetReflection()->AddMessage(message, field);
    json key = name;
    if (key_field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) key = json::parse(name, nullptr, false);
    ZF_RETURN_IF_ERROR(ReadValue(key, element_path, key_field, entry));
    ZF_RETURN_IF_ERROR(ReadValue(element, element_path, field->message_type()->map_value(), entry));
  }
  return absl::OkStatus();
}

absl::Status ReadField(const json& value, const std::string& path, const FieldDescriptor* field, Message* message) {
  if (value.is_null() && field->has_presence()) return absl::OkStatus();
  if (field->is_map()) return ReadMap(value, path, field, message);
  if (!field->is_repeated()) {
    if (field->real_containing_oneof() != nullptr &&
        message->GetReflection()->HasOneof(*message, field->real_containing_oneof())) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": another field of '", field->containing_oneof()->name(), "' is set already"));
    }
    return ReadValue(value, path, field, message);
  }
  if (!value.is_array()) return Wrong(path, "an array", value);
  for (size_t i = 0; i < value.size(); ++i) {
    ZF_RETURN_IF_ERROR(ReadValue(value[i], absl::StrCat(path, "[", i, "]"), field, message));
  }
  return absl::OkStatus();
}

absl::Status ReadMessage(const json& value, const std::string& path, Message* message) {
  if (!value.is_object()) return Wrong(path.empty() ? "the document" : path, "an object", value);
  for (const auto& [name, element] : value.items()) {
    const std::string field_path = path.empty() ? name : absl::StrCat(path, ".", name);
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) return absl::InvalidArgumentError(absl::StrCat(field_path, ": unknown key"));
    ZF_RETURN_IF_ERROR(ReadField(element, field_path, field, message));
  }
  return absl::OkStatus();
}

absl::Status CheckKeys(const json& value, const std::string& path, const google::protobuf::Descriptor& type,
                       const std::set<std::string>& except) {
  if (!value.is_object()) return absl::OkStatus();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (except.contains(field.name())) continue;
    const std::string field_path = path.empty() ? field.name() : absl::StrCat(path, ".", field.name());
    const auto found = value.find(field.name());
    if (found == value.end()) return absl::InvalidArgumentError(absl::StrCat(field_path, ": missing"));
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field.is_map()) continue;
    if (!field.is_repeated()) ZF_RETURN_IF_ERROR(CheckKeys(*found, field_path, *field.message_type(), except));
    for (size_t e = 0; field.is_repeated() && found->is_array() && e < found->size(); ++e) {
      ZF_RETURN_IF_ERROR(CheckKeys((*found)[e], absl::StrCat(field_path, "[", e, "]"), *field.message_type(), except));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckEveryKeyPresent(const json& value, const google::protobuf::Descriptor& type,
                                  const std::set<std::string>& except) {
  return CheckKeys(value, "", type, except);
}

absl::Status ParsedJsonToProto(const json& value, Message* message) {
  message->Clear();
  return ReadMessage(value, "", message);
}

}  // namespace zerofleet
