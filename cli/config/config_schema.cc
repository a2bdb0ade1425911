// A walk over the message's descriptor and the rows of its keys; see config_schema.h.
#include "cli/config/config_schema.h"

#include "cli/config/keys.h"
#include "google/protobuf/descriptor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

Json FieldSchema(const FieldDescriptor& field, const std::string& key);

Json SectionSchema(const Descriptor& descriptor, const std::string& section) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  Json& properties = schema["properties"] = Json::object();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (IsRecord(field)) continue;  // written by a program, never in an editor
    properties[field.name()] = FieldSchema(field, section.empty() ? field.name() : section + "." + field.name());
  }
  return schema;
}

// A bound or a default in the field's type: a double or an integer.
Json Number(const FieldDescriptor& field, double value) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) return value;
  return static_cast<int64_t>(value);
}

Json NumberSchema(const FieldDescriptor& field, const v1::KeyRow& row) {
  Json schema = {{"type", field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE ? "number" : "integer"}};
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64) schema["minimum"] = 0;
  if (row.has_smallest()) schema["minimum"] = Number(field, row.smallest());
  if (row.has_above()) schema["exclusiveMinimum"] = Number(field, row.above());
  if (row.has_largest()) schema["maximum"] = Number(field, row.largest());
  if (row.multiple_of() > 0) schema["multipleOf"] = row.multiple_of();
  if (row.or_zero()) schema = {{"anyOf", {{{"const", 0}}, schema}}};
  if (row.kind() == v1::KeyRow::FRACTION) schema = {{"anyOf", {schema, {{"enum", {"auto"}}}}}};
  return schema;
}

Json StringSchema(const Key& key) {
  const auto largest = static_cast<int64_t>(key.row->largest());
  switch (key.row->kind()) {
    case v1::KeyRow::TEAM:
      return {{"anyOf",
               {{{"type", "string"}, {"pattern", "^(auto|[1-9][0-9]*)$"}},
                {{"type", "integer"}, {"minimum", 1}, {"maximum", largest}}}}};
    case v1::KeyRow::SIZE: return {{"type", "string"}, {"pattern", "^([0-9]+(\\.[0-9]+)? ?[KMGT]iB)?$"}};
    case v1::KeyRow::CHECKPOINTING: {
      const Json every = {{"type", "object"},
                          {"additionalProperties", false},
                          {"required", {"every"}},
                          {"properties", {{"every", {{"type", "integer"}, {"minimum", 1}, {"maximum", largest}}}}}};
      return {
          {"anyOf", {{{"type", "string"}, {"pattern", "^(none|block|selective|\\{every: [1-9][0-9]*\\})$"}}, every}}};
    }
    default: break;
  }
  Json schema = {{"type", "string"}};
  const std::vector<std::string> choices = ChoicesOf(key);
  if (!choices.empty()) schema["enum"] = choices;
  return schema;
}

Json ListSchema(const v1::KeyRow& row, const Json& item) {
  const Json list = {{"type", "array"}, {"items", item}};
  if (row.kind() == v1::KeyRow::MIXTURE) {
    const Json part = {{"type", "object"},
                       {"additionalProperties", false},
                       {"required", {"path", "weight"}},
                       {"properties", {{"path", item}, {"weight", {{"type", "number"}, {"exclusiveMinimum", 0}}}}}};
    return {{"type", "array"}, {"items", {{"anyOf", {item, part}}}}};
  }
  if (row.kind() == v1::KeyRow::BATCHES) {
    const Json change = {{"type", "object"},
                         {"additionalProperties", false},
                         {"required", {"from_step", "global_sequences"}},
                         {"properties",
                          {{"from_step", {{"type", "integer"}, {"minimum", 2}}},
                           {"global_sequences", {{"type", "integer"}, {"minimum", 1}}}}}};
    return {{"type", "array"}, {"items", {{"anyOf", {item, change}}}}};
  }
  if (row.kind() == v1::KeyRow::NAMED_SETS) {
    const Json set = {{"anyOf", {item, list}}};
    return {{"anyOf", {list, {{"type", "object"}, {"additionalProperties", set}}}}};
  }
  return list;
}

// The row's default, as JSON of the field's type.
Json DefaultValue(const FieldDescriptor& field, const std::string& value) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return value;
  return Json::parse(value);
}

Json FieldSchema(const FieldDescriptor& field, const std::string& key) {
  const v1::KeyRow& row = RowOf(field);
  Json schema = {{"description", row.text()}};
  if (field.message_type() != nullptr) {
    schema.update(SectionSchema(*field.message_type(), key));
    return schema;
  }
  Json value;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: value = StringSchema(*FindKey(key)); break;
    case FieldDescriptor::CPPTYPE_BOOL: value = {{"type", "boolean"}}; break;
    default: value = NumberSchema(field, row);
  }
  schema.update(field.is_repeated() ? ListSchema(row, value) : value);
  if (!row.value().empty()) schema["default"] = DefaultValue(field, row.value());
  return schema;
}

}  // namespace

Json ConfigSchema() {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "Zerofleet configuration"},
                 {"description", "One training run; see docs/configuration.md."}};
  schema.update(SectionSchema(*v1::Config::descriptor(), ""));
  return schema;
}

std::string ConfigSchemaText() { return ConfigSchema().dump(2) + "\n"; }

}  // namespace zerofleet::cli
