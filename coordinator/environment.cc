// Comparing environments; see environment.h.
#include "coordinator/environment.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {
namespace {

bool IsSame(const v1::Fact& a, const v1::Fact& b) { return a.name() == b.name() && a.value() == b.value(); }

bool IsSame(const Environment& a, const Environment& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const v1::Fact& x, const v1::Fact& y) { return IsSame(x, y); });
}

const std::string& ValueOf(const Environment& environment, const std::string& name) {
  static const std::string& none = *new std::string("none");
  const auto fact = std::find_if(environment.begin(), environment.end(),
                                 [&name](const v1::Fact& known) { return known.name() == name; });
  return fact == environment.end() ? none : fact->value();
}

// The name of the first fact in which they differ.
std::string FirstDifference(const Environment& expected, const Environment& got) {
  for (const v1::Fact& fact : expected) {
    if (ValueOf(got, fact.name()) != fact.value()) return fact.name();
  }
  const auto more = std::find_if(got.begin(), got.end(), [&expected](const v1::Fact& fact) {
    return ValueOf(expected, fact.name()) != fact.value();
  });
  return more == got.end() ? "order of facts" : more->name();
}

// The member whose environment the others are to have.
const Member& ModelOf(const Fleet& fleet) {
  struct Count {
    const Member* first;
    int members = 0;
  };
  std::map<std::string, Count> counts;
  for (const Member& member : fleet.members) {
    if (fleet.environment.size() > 0 && IsSame(member.ready.environment(), fleet.environment)) return member;
    std::string key;
    for (const v1::Fact& fact : member.ready.environment()) absl::StrAppend(&key, fact.SerializeAsString());
    Count& count = counts.try_emplace(key, Count{&member}).first->second;
    ++count.members;
  }
  const Count* most = &counts.begin()->second;
  for (const auto& [key, count] : counts) {
    const bool more = count.members > most->members;
    const bool earlier = count.members == most->members && count.first->rank < most->first->rank;
    if (more || earlier) most = &count;
  }
  return *most->first;
}

std::string RemedyOf(const std::string& name) {
  constexpr char kWarn[] = "agreement: warn goes on with numbers that may differ in their last bits";
  if (name == kTrainingData || name == kValidationData)
    return "give all ranks the same files; agreement: warn goes on with what each has";
  if (name == kTokensOfText) return "give all ranks the same tokenizer_config.json and chat template";
  if (name == kInstructionSet || name == kLibraryInstructionSet) {
    return absl::StrCat("device_isa pins all ranks to the lesser one; ", kWarn);
  }
  return kWarn;
}

std::string TextOf(const Member& model, const Member& other, size_t others) {
  const Environment &expected = model.ready.environment(), &got = other.ready.environment();
  const std::string name = FirstDifference(expected, got);
  return absl::StrCat("ranks differ in their ", name, ": ", NameOf(other), " has ", ValueOf(got, name), ", ",
                      NameOf(model), " has ", ValueOf(expected, name),
                      others == 0 ? "" : absl::StrCat(" (", others, " more differ from it too)"), "; ", RemedyOf(name));
}

}  // namespace

std::optional<Strangers> SettleEnvironment(Fleet& fleet) {
  const Member& model = ModelOf(fleet);
  Strangers strangers;
  for (const Member& member : fleet.members) {
    if (!IsSame(member.ready.environment(), model.ready.environment())) strangers.members.push_back(member.id);
  }
  fleet.environment = model.ready.environment();
  fleet.mixed_environment = !strangers.members.empty();
  if (strangers.members.empty()) return std::nullopt;
  strangers.text = TextOf(model, *fleet.Find(strangers.members.front()), strangers.members.size() - 1);
  return strangers;
}

}  // namespace zerofleet::coordinator
