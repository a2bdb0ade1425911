// The keys of the configuration, with the row that proto/zerofleet/v1/config.proto gives each (key.proto): what the
// defaults, the checks of single values, the schema, completion and the tables of docs/configuration.md are made from.
#ifndef ZEROFLEET_CLI_CONFIG_KEYS_H_
#define ZEROFLEET_CLI_CONFIG_KEYS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "zerofleet/v1/config.pb.h"
#include "zerofleet/v1/key.pb.h"

namespace zerofleet::cli {

// A field of v1::Config, or of a section of it, that holds a value.
struct Key {
  std::string name;                                            // dotted, such as "offload.fraction"
  std::vector<const google::protobuf::FieldDescriptor*> path;  // the sections, then the field
  const v1::KeyRow* row;

  const google::protobuf::FieldDescriptor& field() const { return *path.back(); }
  // The section of `config` that holds the field. The second makes sections that are missing.
  const google::protobuf::Message& Section(const v1::Config& config) const;
  // Whether the section is there: of a model of another family some are not.
  bool HasSection(const v1::Config& config) const;
  google::protobuf::Message& Section(v1::Config& config) const;
};

// All of them, in the order of the message.
std::span<const Key> Keys();
// Null if there is none of this name.
const Key* FindKey(std::string_view name);
// Whether a field is a message that a program writes: no key, and no section of keys.
bool IsRecord(const google::protobuf::FieldDescriptor& field);
// The row of a key or of a section.
const v1::KeyRow& RowOf(const google::protobuf::FieldDescriptor& field);

// The words that a string may be, in every build; empty if any string is read.
std::vector<std::string> ChoicesOf(const Key& key);
// Whether it is a number in a range that the row tells.
bool HasRange(const v1::KeyRow& row);
// "1e6", "0.1", "16384"
std::string NumberText(double value);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_KEYS_H_
