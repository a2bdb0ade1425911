// The keys of the configuration, each with the row that proto/zerofleet/v1/config.proto gives it (key.proto). The
// defaults, the checks of single values, the schema, completion and the tables of docs/configuration.md are all made
// from these rows.
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
  // The section of `config` that holds the field. The overload for a mutable `config` creates missing sections.
  const google::protobuf::Message& Section(const v1::Config& config) const;
  // Whether `config` has the section: a model lacks the sections of other families.
  bool HasSection(const v1::Config& config) const;
  google::protobuf::Message& Section(v1::Config& config) const;
};

// All keys, in the order of the message's fields.
std::span<const Key> Keys();
// The key of this name; null if there is none.
const Key* FindKey(std::string_view name);
// Whether a field is a message that a program writes, and so neither a key nor a section of keys.
bool IsRecord(const google::protobuf::FieldDescriptor& field);
// The row of a key or of a section.
const v1::KeyRow& RowOf(const google::protobuf::FieldDescriptor& field);

// The words that a string key accepts, including those that only other builds support; empty if it accepts any string.
std::vector<std::string> ChoicesOf(const Key& key);
// Whether the row limits a number to a range.
bool HasRange(const v1::KeyRow& row);
// "1e6", "0.1", "16384"
std::string NumberText(double value);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_KEYS_H_
