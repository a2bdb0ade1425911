// The reflective reader: one function per shape (section, list, scalar); see config_text.h.
#include "cli/config/config_text.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "cli/config/config_documents.h"
#include "cli/config/key_words.h"
#include "cli/config/keys.h"
#include "cli/config/mixture_weights.h"
#include "cli/config/nearest.h"
#include "cli/config/utf8.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/json.h"
#include "worker/trainer/rules.h"
#include "yaml-cpp/yaml.h"

namespace zerofleet::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Text from a file, safe on one line of a terminal.
std::string Quoted(const std::string& text) {
  constexpr size_t kLongest = 60;
  const bool cut = text.size() > kLongest;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kLongest)), cut ? "..." : "", "\"");
}

std::string Joined(const std::string& section, const std::string& name) {
  return section.empty() ? name : absl::StrCat(section, ".", name);
}

// Every key of `descriptor` and the sections below it.
void CollectKeys(const Descriptor& descriptor, const std::string& section, std::vector<std::string>& keys) {
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (IsRecord(field)) continue;
    const std::string key = Joined(section, field.name());
    keys.push_back(key);
    if (field.message_type() != nullptr) CollectKeys(*field.message_type(), key, keys);
  }
}

// The key of `section` that `name` begins or misspells, or that a word of another tool, with or without the section,
// stands for; empty if there is none.
std::string AdviceInSection(const std::string& section, const std::string& name,
                            const std::vector<std::string>& siblings) {
  if (const KeyWord* word = FindKeyWord(absl::StrCat(section, "_", name))) return KeyWordAdvice(*word);
  for (const std::string& sibling : siblings) {
    if (absl::StartsWith(sibling, name + "_")) return absl::StrCat("did you mean ", Joined(section, sibling), "?");
  }
  const KeyWord* const word = FindKeyWord(name);
  if (word != nullptr && absl::StartsWith(word->key, section + ".")) return KeyWordAdvice(*word);
  const std::string nearest = Nearest(name, siblings);
  return nearest.empty() ? "" : absl::StrCat("did you mean ", Joined(section, nearest), "?");
}

// The advice on `name`, which is not a key of `section`. What the section itself has comes first, then a key of this
// name in another section, then what the word means in other tools, then a misspelling; if none of these applies, the
// valid keys.
std::string KeySuggestion(const Descriptor& descriptor, const std::string& section, const std::string& name) {
  std::vector<std::string> all, same_name, siblings;
  CollectKeys(*v1::Config::descriptor(), "", all);
  for (const std::string& key : all) {
    const size_t dot = key.rfind('.');
    if (key.substr(dot == std::string::npos ? 0 : dot + 1) == name) same_name.push_back(key);
  }
  for (int i = 0; i < descriptor.field_count(); ++i) siblings.push_back(descriptor.field(i)->name());
  if (!section.empty()) {
    const std::string advice = AdviceInSection(section, name, siblings);
    if (!advice.empty()) return advice;
  }
  const KeyWord* const word = FindKeyWord(name);
  const bool absent = word != nullptr && std::string_view(word->key).empty();  // known, but there is no such key
  if (!same_name.empty() && !absent) return absl::StrCat("did you mean ", Alternatives(same_name), "?");
  if (word != nullptr) return KeyWordAdvice(*word);
  const std::string nearest = Nearest(name, siblings);
  if (!nearest.empty()) return absl::StrCat("did you mean ", Joined(section, nearest), "?");
  for (const std::string& key : all) {
    if (!Nearest(name, {key.substr(key.rfind('.') + 1)}).empty()) return absl::StrCat("did you mean ", key, "?");
  }
  return absl::StrCat(section.empty() ? "the keys" : absl::StrCat("the keys of ", section), " are ",
                      absl::StrJoin(siblings, ", "));
}

const char* KindWanted(const FieldDescriptor& field) {
  if (field.is_repeated()) {
    if (RowOf(field).kind() == v1::KeyRow::BATCHES) return "a list, such as [{from_step: 1000, global_sequences: 32}]";
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return "a list of integers, such as [7, 3]";
    return RowOf(field).kind() == v1::KeyRow::NAMED_SETS
               ? "a list of strings, such as [one.txt, two.txt], or one for each name, such as {wiki: [one.txt]}"
               : "a list of strings, such as [one.txt, two.txt]";
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: return "a section of keys";
    case FieldDescriptor::CPPTYPE_STRING: return "a string";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return RowOf(field).kind() == v1::KeyRow::FRACTION ? "a number or auto" : "a number";
    case FieldDescriptor::CPPTYPE_BOOL: return "true or false";
    case FieldDescriptor::CPPTYPE_UINT64: return "an integer >= 0";
    default: return "an integer";
  }
}

std::string KindFound(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Map: return "a section of keys";
    case YAML::NodeType::Sequence: return "a list";
    case YAML::NodeType::Scalar: return (node.Tag() == "!" ? "the string " : "") + Quoted(node.Scalar());
    default: return "nothing";
  }
}

// Parses all of `text` as a T.
template <typename T>
std::errc ParseNumber(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return error;
  return stop == end ? std::errc() : std::errc::invalid_argument;
}

class Reader {
 public:
  // With an empty `flag` the text is the file's; otherwise it was given on the command line with `flag`, and may
  // replace what the file gave.
  Reader(ConfigDraft& draft, std::string flag) : draft_(draft), flag_(std::move(flag)) {}

  absl::Status ReadSection(const YAML::Node& node, const std::string& section, Message& message) {
    const Descriptor& descriptor = *message.GetDescriptor();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        return Error(entry.first, section, absl::StrCat("a key must be a string, got ", KindFound(entry.first)));
      }
      const std::string& name = entry.first.Scalar();
      const FieldDescriptor* field = descriptor.FindFieldByName(name);
      if (field == nullptr) {
        const std::string printable = IsPlainText(name) && name.size() <= 60 ? name : Quoted(name);
        return Error(entry.first, Joined(section, printable),
                     absl::StrCat("unknown key; ", KeySuggestion(descriptor, section, name)));
      }
      const std::string key = Joined(section, name);
      if (flag_.empty() && draft_.Given(key)) {
        return Error(entry.first, key, absl::StrCat("is duplicated; first given at ", draft_.given[key]));
      }
      draft_.given[key] = Place(entry.first);
      ZF_RETURN_IF_ERROR(ReadField(entry.second, key, *field, message));
    }
    return absl::OkStatus();
  }

  absl::Status ReadField(const YAML::Node& node, const std::string& key, const FieldDescriptor& field,
                         Message& message) {
    const Reflection& reflection = *message.GetReflection();
    if (field.is_repeated()) return ReadRepeated(node, key, field, message);
    if (IsRecord(field) && node.IsNull()) return absl::OkStatus();
    if (IsRecord(field)) return ReadRecord(node, key, *reflection.MutableMessage(&message, &field));
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      // A complete configuration has null for a section within another one where it does not apply.
      if (node.IsNull() && absl::StrContains(key, '.')) return absl::OkStatus();
      if (!node.IsMap()) return WrongType(node, key, field);
      return ReadSection(node, key, *reflection.MutableMessage(&message, &field));
    }
    if (RowOf(field).kind() == v1::KeyRow::CHECKPOINTING && node.IsMap())
      return ReadCheckpointing(node, key, field, message);
    if (!node.IsScalar()) return WrongType(node, key, field);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      ZF_RETURN_IF_ERROR(CheckText(node, key));
      reflection.SetString(&message, &field, node.Scalar());
      return absl::OkStatus();
    }
    if (RowOf(field).kind() == v1::KeyRow::FRACTION && node.Scalar() == "auto") {
      reflection.SetDouble(&message, &field, trainer::kFractionByPlan);
      return absl::OkStatus();
    }
    if (node.Tag() == "!") return WrongType(node, key, field);  // quoted: always a string
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      if (node.Scalar() != "true" && node.Scalar() != "false") return WrongType(node, key, field);
      reflection.SetBool(&message, &field, node.Scalar() == "true");
      return absl::OkStatus();
    }
    return ReadNumber(node, key, field, message);
  }

 private:
  // Reads a message that a program has written as JSON, which is also YAML.
  absl::Status ReadRecord(const YAML::Node& node, const std::string& key, Message& message) const {
    if (!node.IsMap()) return Error(node, key, absl::StrCat("must be a record, got ", KindFound(node)));
    const absl::Status read = ParsedJsonToProto(JsonOf(node), &message);
    return read.ok() ? read : Error(node, key, std::string(read.message()));
  }

  static nlohmann::json JsonOf(const YAML::Node& node) {
    if (node.IsMap()) {
      nlohmann::json object = nlohmann::json::object();
      for (const auto& entry : node) object[entry.first.Scalar()] = JsonOf(entry.second);
      return object;
    }
    if (node.IsSequence()) {
      nlohmann::json list = nlohmann::json::array();
      for (const YAML::Node& item : node) list.push_back(JsonOf(item));
      return list;
    }
    if (!node.IsScalar()) return nullptr;
    if (node.Tag() == "!") return node.Scalar();
    nlohmann::json value = nlohmann::json::parse(node.Scalar(), nullptr, /*allow_exceptions=*/false);
    return value.is_discarded() ? nlohmann::json(node.Scalar()) : value;
  }

  // Reads {every: n}; the field holds it as this text, and config_check.cc checks n.
  absl::Status ReadCheckpointing(const YAML::Node& node, const std::string& key, const FieldDescriptor& field,
                                 Message& message) const {
    for (const auto& entry : node) {
      if (node.size() == 1 && entry.first.IsScalar() && entry.first.Scalar() == "every" && entry.second.IsScalar()) {
        ZF_RETURN_IF_ERROR(CheckText(entry.second, key));
        message.GetReflection()->SetString(&message, &field, absl::StrCat("{every: ", entry.second.Scalar(), "}"));
        return absl::OkStatus();
      }
    }
    return Error(node, key, "must be none, block, selective or {every: n}, got another section of keys");
  }

  std::string Place(const YAML::Node& node) const {
    return flag_.empty() ? absl::StrCat(draft_.file, ":", node.Mark().line + 1) : flag_;
  }

  absl::Status Error(const YAML::Node& node, const std::string& key, const std::string& message) const {
    return absl::InvalidArgumentError(absl::StrCat(Place(node), ": ", key, key.empty() ? "" : ": ", message));
  }

  absl::Status WrongType(const YAML::Node& node, const std::string& key, const FieldDescriptor& field) const {
    return Error(node, key, absl::StrCat("must be ", KindWanted(field), ", got ", KindFound(node)));
  }

  absl::Status CheckText(const YAML::Node& node, const std::string& key) const {
    if (IsPlainText(node.Scalar())) return absl::OkStatus();
    return Error(node, key, absl::StrCat("must be one line of UTF-8 text, got ", Quoted(node.Scalar())));
  }

  absl::Status ReadRepeated(const YAML::Node& node, const std::string& key, const FieldDescriptor& field,
                            Message& message) const {
    const v1::KeyRow::Kind kind = RowOf(field).kind();
    message.GetReflection()->ClearField(&message, &field);
    if (kind == v1::KeyRow::MIXTURE || kind == v1::KeyRow::NAMED_SETS) {
      const FieldDescriptor& beside = *BesideField(field);
      // A list that the command line replaces loses its weights or names too.
      if (!flag_.empty() || HoldsSections(node)) message.GetReflection()->ClearField(&message, &beside);
      if (HoldsSections(node)) {
        return kind == v1::KeyRow::MIXTURE ? ReadMixture(node, key, field, beside, message)
                                           : ReadNamedSets(node, key, field, beside, message);
      }
    }
    if (kind == v1::KeyRow::BATCHES && (!flag_.empty() || HoldsSections(node))) {
      return ReadBatches(node, key, field, *field.containing_type()->FindFieldByName(field.name() + "_steps"), message);
    }
    if (!node.IsSequence()) return WrongType(node, key, field);
    return ReadList(node, key, field, message);
  }

  // Reads [{from_step: 1000, global_sequences: 32}, ...]: the batches into `field`, and the first step of each into
  // `steps`. A list that the command line replaces loses its steps too.
  absl::Status ReadBatches(const YAML::Node& node, const std::string& key, const FieldDescriptor& field,
                           const FieldDescriptor& steps, Message& message) const {
    const Reflection& reflection = *message.GetReflection();
    reflection.ClearField(&message, &steps);
    if (!node.IsSequence()) return WrongType(node, key, field);
    int index = 0;
    for (const YAML::Node& item : node) {
      const std::string item_key = absl::StrCat(key, "[", index++, "]");
      int64_t numbers[2] = {};
      bool fits = item.IsMap() && item.size() == 2;
      const char* const names[2] = {"from_step", "global_sequences"};
      for (int i = 0; fits && i < 2; ++i) {
        const YAML::Node value = item[names[i]];
        fits =
            value && value.IsScalar() && value.Tag() != "!" && ParseNumber(value.Scalar(), numbers[i]) == std::errc();
      }
      if (!fits) return Error(item, item_key, "must be {from_step: S, global_sequences: N} with two integers");
      reflection.AddInt64(&message, &steps, numbers[0]);
      reflection.AddInt64(&message, &field, numbers[1]);
    }
    return absl::OkStatus();
  }

  // The field that holds a mixture's weights or the names of named sets.
  static const FieldDescriptor* BesideField(const FieldDescriptor& field) {
    const char* const suffix = RowOf(field).kind() == v1::KeyRow::MIXTURE ? "_weights" : "_sets";
    return field.containing_type()->FindFieldByName(absl::StrCat(field.name(), suffix));
  }

  static bool HoldsSections(const YAML::Node& node) {
    if (node.IsMap()) return true;
    if (!node.IsSequence()) return false;
    for (const YAML::Node& item : node) {
      if (item.IsMap()) return true;
    }
    return false;
  }

  // Reads [{path: a, weight: 0.7}, ...]: the paths into `field`, and into `beside` the smallest integers in the
  // proportion of the weights.
  absl::Status ReadMixture(const YAML::Node& node, const std::string& key, const FieldDescriptor& field,
                           const FieldDescriptor& beside, Message& message) const {
    if (!node.IsSequence()) return WrongType(node, key, field);
    std::vector<std::string> weights;
    for (const YAML::Node& item : node) {
      const std::string item_key = absl::StrCat(key, "[", weights.size(), "]");
      if (!item.IsMap() || item.size() != 2 || !item["path"] || !item["weight"]) {
        return Error(item, item_key, "must be {path: P, weight: W} as the others of the mixture");
      }
      if (!item["path"].IsScalar()) {
        return Error(item, item_key, absl::StrCat("path must be a string, got ", KindFound(item["path"])));
      }
      ZF_RETURN_IF_ERROR(CheckText(item["path"], item_key));
      if (!item["weight"].IsScalar()) {
        return Error(item, item_key, absl::StrCat("weight must be a number, got ", KindFound(item["weight"])));
      }
      message.GetReflection()->AddString(&message, &field, item["path"].Scalar());
      weights.push_back(item["weight"].Scalar());
    }
    const absl::StatusOr<std::vector<int64_t>> integers = IntegerWeights(weights);
    if (!integers.ok()) return Error(node, key, std::string(integers.status().message()));
    for (const int64_t weight : *integers) message.GetReflection()->AddInt64(&message, &beside, weight);
    return absl::OkStatus();
  }

  // Reads {wiki: [a, b], code: c}: the paths into `field`, and the name of each path's set into `beside`.
  absl::Status ReadNamedSets(const YAML::Node& node, const std::string& key, const FieldDescriptor& field,
                             const FieldDescriptor& beside, Message& message) const {
    if (!node.IsMap()) return WrongType(node, key, field);
    std::set<std::string> names;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return Error(entry.first, key, "a set's name must be a string");
      const std::string& name = entry.first.Scalar();
      ZF_RETURN_IF_ERROR(CheckText(entry.first, key));
      const int before = message.GetReflection()->FieldSize(message, &field);
      const std::string set_key = absl::StrCat(key, ".", name);
      if (!names.insert(name).second) return Error(entry.first, set_key, "is given twice");
      if (entry.second.IsScalar()) {
        ZF_RETURN_IF_ERROR(CheckText(entry.second, set_key));
        message.GetReflection()->AddString(&message, &field, entry.second.Scalar());
      } else if (entry.second.IsSequence()) {
        ZF_RETURN_IF_ERROR(ReadList(entry.second, set_key, field, message));
      } else {
        return Error(entry.second, set_key, absl::StrCat("must be a path or a list, got ", KindFound(entry.second)));
      }
      const int after = message.GetReflection()->FieldSize(message, &field);
      if (after == before) return Error(entry.second, set_key, "must name at least one file or directory");
      for (int i = before; i < after; ++i) message.GetReflection()->AddString(&message, &beside, name);
    }
    return absl::OkStatus();
  }

  absl::Status ReadList(const YAML::Node& node, const std::string& key, const FieldDescriptor& field,
                        Message& message) const {
    const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    int index = 0;
    for (const YAML::Node& item : node) {
      const std::string item_key = absl::StrCat(key, "[", index++, "]");
      if (!is_text) {
        int64_t value = 0;
        if (!item.IsScalar() || item.Tag() == "!" || ParseNumber(item.Scalar(), value) != std::errc()) {
          return Error(item, item_key, absl::StrCat("must be an integer, got ", KindFound(item)));
        }
        message.GetReflection()->AddInt64(&message, &field, value);
        continue;
      }
      if (!item.IsScalar()) return Error(item, item_key, absl::StrCat("must be a string, got ", KindFound(item)));
      ZF_RETURN_IF_ERROR(CheckText(item, item_key));
      message.GetReflection()->AddString(&message, &field, item.Scalar());
    }
    return absl::OkStatus();
  }

  absl::Status ReadNumber(const YAML::Node& node, const std::string& key, const FieldDescriptor& field,
                          Message& message) const {
    const Reflection& reflection = *message.GetReflection();
    const std::string& text = node.Scalar();
    std::errc error{};
    const auto read = [&](auto value, auto set) {
      error = ParseNumber(text, value);
      if (error == std::errc()) (reflection.*set)(&message, &field, value);
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: read(int32_t{}, &Reflection::SetInt32); break;
      case FieldDescriptor::CPPTYPE_INT64: read(int64_t{}, &Reflection::SetInt64); break;
      case FieldDescriptor::CPPTYPE_UINT64: read(uint64_t{}, &Reflection::SetUInt64); break;
      default: read(double{}, &Reflection::SetDouble); break;
    }
    if (error == std::errc::result_out_of_range)
      return Error(node, key, absl::StrCat(text.substr(0, 60), " is out of range"));
    const bool is_double = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
    if (error != std::errc() || (is_double && !std::isfinite(reflection.GetDouble(message, &field)))) {
      return WrongType(node, key, field);
    }
    return absl::OkStatus();
  }

  ConfigDraft& draft_;
  const std::string flag_;
};

// One line, whatever the parser's message contains.
absl::Status SyntaxError(const std::string& place, const YAML::Exception& error) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": not valid YAML: ", absl::CHexEscape(error.msg)));
}

}  // namespace

absl::Status ConfigDraft::Error(const std::string& key, const std::string& message) const {
  const auto place = given.find(key);
  return absl::InvalidArgumentError(
      absl::StrCat(place == given.end() ? file : place->second, ": ", key, ": ", message));
}

absl::Status ReadConfigText(const std::string& yaml, ConfigDraft& draft) {
  try {
    if (const std::optional<int> line = LineOfSecondDocument(yaml)) {
      return absl::InvalidArgumentError(
          absl::StrCat(draft.file, ":", *line, ": a second YAML document; a configuration is a single document"));
    }
    const YAML::Node document = YAML::Load(yaml);
    if (document.IsNull()) return absl::OkStatus();
    if (!document.IsMap()) {
      return absl::InvalidArgumentError(
          absl::StrCat(draft.file, ":1: must contain keys such as \"model:\", got ", KindFound(document)));
    }
    return Reader(draft, /*flag=*/"").ReadSection(document, "", draft.config);
  } catch (const YAML::Exception& error) {
    return SyntaxError(absl::StrCat(draft.file, ":", error.mark.line + 1), error);
  }
}

namespace {

// A string on the command line: in quotes it is YAML, as every other value is; without, it is taken as it stands.
YAML::Node TextNode(const std::string& value) {
  const bool quoted = value.size() >= 2 && value.front() == value.back() && (value[0] == '"' || value[0] == '\'');
  return quoted ? YAML::Load(value) : YAML::Node(value);
}

}  // namespace

absl::Status ApplyOverride(const std::string& flag, const std::string& assignment, ConfigDraft& draft) {
  const auto error = [&](const std::string& message) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", message));
  };
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    return error(absl::StrCat("must be KEY=VALUE, got ", Quoted(assignment)));
  }
  const std::string key = assignment.substr(0, equals), value = assignment.substr(equals + 1);
  Message* message = &draft.config;
  const FieldDescriptor* field = nullptr;
  std::string section;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(key, '.'))) {
    if (field != nullptr) {
      if (field->message_type() == nullptr) return error(absl::StrCat(section, ": has no keys below it"));
      message = message->GetReflection()->MutableMessage(message, field);
    }
    field = message->GetDescriptor()->FindFieldByName(name);
    if (field == nullptr) {
      return error(absl::StrCat(IsPlainText(key) && key.size() <= 60 ? key : Quoted(key), ": unknown key; ",
                                KeySuggestion(*message->GetDescriptor(), section, name)));
    }
    section = Joined(section, name);
  }
  if (IsRecord(*field)) return error(absl::StrCat(key, ": is written by the Python package; leave it out"));
  if (field->message_type() != nullptr) {
    return error(absl::StrCat(key, ": is a section; set one of its keys, such as ", key, ".",
                              field->message_type()->field(0)->name()));
  }
  draft.given[key] = flag;
  try {
    const bool is_text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field->is_repeated();
    const YAML::Node node = is_text ? TextNode(value) : YAML::Load(value);
    return Reader(draft, flag).ReadField(node, key, *field, *message);
  } catch (const YAML::Exception& error) {
    return SyntaxError(absl::StrCat(flag, ": ", key), error);
  }
}

std::string TextOf(const v1::Config& config) { return DumpJson(ProtoToJson(config), 2) + "\n"; }

}  // namespace zerofleet::cli
