// Holding a pass to its script; see script.h.
#include "worker/model/script.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace zerofleet::model {
namespace {

using What = UnitEvent::What;

constexpr const char* kWords[] = {"is acquired", "is released", "begins its gradient", "delivers its gradient"};

const char* WordOf(What what) { return kWords[static_cast<size_t>(what)]; }

// Reads one pass of the script, and checks each event.
absl::StatusOr<std::vector<UnitEvent>> EventsOf(const char* pass,
                                                const google::protobuf::RepeatedPtrField<v1::ForeignEvent>& given,
                                                int units, bool delivers) {
  std::vector<UnitEvent> events;
  std::vector<bool> open(units), begun(units), done(units);
  for (int i = 0; i < given.size(); ++i) {
    const v1::ForeignEvent& from = given[i];
    const int unit = from.unit();
    if (unit < 0 || unit >= units || !v1::ForeignEvent::What_IsValid(from.what())) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.foreign.", pass, "[", i, "] is of unit ", unit, ", expected 0 to ", units - 1));
    }
    const auto what = static_cast<What>(from.what());
    const bool fits = what == What::kAcquire    ? !open[unit]
                      : what == What::kRelease  ? open[unit]
                      : what == What::kGradient ? delivers && !begun[unit]
                                                : begun[unit] && !done[unit];
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.foreign.", pass, "[", i, "]: unit ", unit, " ", WordOf(what), " out of turn"));
    }
    if (what == What::kAcquire) open[unit] = true;
    if (what == What::kRelease) open[unit] = false;
    if (what == What::kGradient) begun[unit] = true;
    if (what == What::kDeliver) done[unit] = true;
    events.push_back({what, unit});
  }
  for (int unit = 0; unit < units; ++unit) {
    const char* const missing = open[unit]                   ? "released"
                                : begun[unit] && !done[unit] ? "done with its gradient"
                                                             : nullptr;
    if (missing == nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat("model.foreign.", pass, ": unit ", unit, " is never ", missing));
  }
  return events;
}

}  // namespace

absl::StatusOr<PassScript> ScriptOf(const v1::ForeignModel& foreign) {
  PassScript script;
  ZF_ASSIGN_OR_RETURN(script.training, EventsOf("training", foreign.training(), foreign.units_size(), true));
  ZF_ASSIGN_OR_RETURN(script.evaluation, EventsOf("evaluation", foreign.evaluation(), foreign.units_size(), false));
  return script;
}

absl::Status CheckDeliveries(const v1::ForeignModel& foreign, const PassScript& script) {
  std::vector<bool> delivers(foreign.units_size());
  for (const UnitEvent& event : script.training) {
    if (event.what == What::kDeliver) delivers[event.unit] = true;
  }
  for (int unit = 0; unit < foreign.units_size(); ++unit) {
    const bool frozen = foreign.units(unit).frozen();
    if (delivers[unit] != frozen) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("model.foreign.training: unit ", unit, ", ",
                     frozen ? "which is frozen, delivers a gradient" : "which is trained, delivers no gradient"));
  }
  return absl::OkStatus();
}

std::vector<int> UsesOf(const std::vector<UnitEvent>& events) {
  std::vector<int> uses;
  for (const UnitEvent& event : events) {
    if (event.what == What::kAcquire) uses.push_back(event.unit);
  }
  return uses;
}

ScriptedPass::ScriptedPass(std::span<const UnitEvent> script, std::span<const std::string> names,
                           ParameterSource& parameters)
    : script_(script), names_(names), parameters_(parameters), units_(names.size()) {}

absl::Status ScriptedPass::OutOfOrder(const UnitEvent& event, const char* why) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "model.torch: module ", names_[event.unit], " ", WordOf(event.what), " ", why,
      ": the order in which a pass uses modules must not depend on the data; make both one unit, or leave it out of "
      "units"));
}

absl::StatusOr<device::Tensor> ScriptedPass::Acquire(int unit) {
  UnitState& state = units_[unit];
  state.held = true;
  if (!state.open) ZF_RETURN_IF_ERROR(AdvanceTo({What::kAcquire, unit}));
  return state.memory;
}

absl::Status ScriptedPass::Release(int unit) {
  units_[unit].held = false;
  return Settle();
}

absl::StatusOr<float*> ScriptedPass::Gradient(int unit) {
  UnitState& state = units_[unit];
  if (state.delivered) {
    return OutOfOrder({What::kGradient, unit}, "after it was delivered without some of its parameters");
  }
  if (state.gradient == nullptr) ZF_RETURN_IF_ERROR(AdvanceTo({What::kGradient, unit}));
  return state.gradient;
}

absl::Status ScriptedPass::Deliver(int unit) {
  units_[unit].complete = true;
  return Settle();
}

absl::Status ScriptedPass::Finish() {
  for (UnitState& state : units_) state.held = false;
  while (next_ < script_.size()) ZF_RETURN_IF_ERROR(Perform(script_[next_++]));
  return absl::OkStatus();
}

absl::Status ScriptedPass::AdvanceTo(const UnitEvent& wanted) {
  const auto found = std::find(script_.begin() + static_cast<ptrdiff_t>(next_), script_.end(), wanted);
  if (found == script_.end()) return OutOfOrder(wanted, "where the recorded pass does not");
  const auto end = static_cast<size_t>(found - script_.begin());
  while (next_ <= end) {
    const UnitEvent& event = script_[next_];
    if (event.what == What::kRelease && units_[event.unit].held) {
      return OutOfOrder(wanted, absl::StrCat("while ", names_[event.unit], " is still in use").c_str());
    }
    ++next_;
    ZF_RETURN_IF_ERROR(Perform(event));
  }
  return Settle();
}

absl::Status ScriptedPass::Settle() {
  while (next_ < script_.size()) {
    const UnitEvent& event = script_[next_];
    const UnitState& state = units_[event.unit];
    const bool settled =
        (event.what == What::kRelease && !state.held) || (event.what == What::kDeliver && state.complete);
    if (!settled) return absl::OkStatus();
    ++next_;
    ZF_RETURN_IF_ERROR(Perform(event));
  }
  return absl::OkStatus();
}

absl::Status ScriptedPass::Perform(const UnitEvent& event) {
  UnitState& state = units_[event.unit];
  switch (event.what) {
    case What::kAcquire: {
      ZF_ASSIGN_OR_RETURN(state.memory, parameters_.Acquire(event.unit));
      state.open = true;
      return absl::OkStatus();
    }
    case What::kRelease:
      parameters_.Release(event.unit);
      state.open = false;
      return absl::OkStatus();
    case What::kGradient: {
      ZF_ASSIGN_OR_RETURN(state.gradient, parameters_.Gradient(event.unit));
      return absl::OkStatus();
    }
    case What::kDeliver:
      state.gradient = nullptr;
      state.delivered = true;
      return parameters_.DeliverGradient(event.unit);
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::model
