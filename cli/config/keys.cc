// A walk over the message's descriptor; see keys.h.
#include "cli/config/keys.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "worker/model/checkpointing.h"
#include "worker/model/families.h"
#include "worker/model/presets.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void Collect(const Descriptor& descriptor, const Key& section, std::vector<Key>& keys) {
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (IsRecord(field)) continue;
    Key key = section;
    absl::StrAppend(&key.name, section.name.empty() ? "" : ".", field.name());
    key.path.push_back(&field);
    key.row = &RowOf(field);
    if (field.message_type() != nullptr) {
      Collect(*field.message_type(), key, keys);
    } else {
      keys.push_back(std::move(key));
    }
  }
}

}  // namespace

const Message& Key::Section(const v1::Config& config) const {
  const Message* section = &config;
  for (size_t i = 0; i + 1 < path.size(); ++i) section = &section->GetReflection()->GetMessage(*section, path[i]);
  return *section;
}

bool Key::HasSection(const v1::Config& config) const {
  const Message* section = &config;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    if (!section->GetReflection()->HasField(*section, path[i])) return false;
    section = &section->GetReflection()->GetMessage(*section, path[i]);
  }
  return true;
}

Message& Key::Section(v1::Config& config) const {
  Message* section = &config;
  for (size_t i = 0; i + 1 < path.size(); ++i) section = section->GetReflection()->MutableMessage(section, path[i]);
  return *section;
}

std::span<const Key> Keys() {
  static const std::vector<Key>& keys = *[] {
    auto* all = new std::vector<Key>();
    Collect(*v1::Config::descriptor(), {"", {}, nullptr}, *all);
    return all;
  }();
  return keys;
}

const Key* FindKey(std::string_view name) {
  const std::span<const Key> keys = Keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

bool IsRecord(const FieldDescriptor& field) { return RowOf(field).kind() == v1::KeyRow::RECORD; }

const v1::KeyRow& RowOf(const FieldDescriptor& field) { return field.options().GetExtension(v1::key); }

std::vector<std::string> ChoicesOf(const Key& key) {
  switch (key.row->kind()) {
    case v1::KeyRow::FAMILY: {
      std::vector<std::string> names = model::ModelFamilyNames();
      names.emplace_back("torch");
      return names;
    }
    case v1::KeyRow::OPTIMIZER: return optim::OptimizerNames();
    case v1::KeyRow::CHECKPOINTING: return model::CheckpointingWords();
    case v1::KeyRow::PRESET: {
      std::vector<std::string> names;
      for (const model::ModelPreset& preset : model::ModelPresets()) names.push_back(preset.name);
      return names;
    }
    default: return {key.row->choices().begin(), key.row->choices().end()};
  }
}

bool HasRange(const v1::KeyRow& row) { return row.has_smallest() || row.has_above() || row.has_largest(); }

std::string NumberText(double value) {
  constexpr double kWhole = 1e15;
  if (std::floor(value) == value && std::abs(value) < kWhole && std::fmod(value, 1e6) != 0) {
    return absl::StrFormat("%.0f", value);
  }
  return absl::StrReplaceAll(absl::StrFormat("%g", value), {{"e+0", "e"}, {"e+", "e"}});
}

}  // namespace zerofleet::cli
