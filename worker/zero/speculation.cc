// Guess, keep, put back; see speculation.h.
#include "worker/zero/speculation.h"

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace zerofleet::zero {
namespace {

std::string CopyRow(const optim::OptimizerVector& vector) { return absl::StrCat(vector.name, " before the step"); }

// What DecideStep makes of a control that BeginStep has left, if the gradient is finite and not clipped; only in the
// members that an optimizer reads.
device::StepControl Guess(device::StepControl control, const device::StepRule& rule) {
  control.apply = 1;
  ++control.updates;
  control.factors = device::FactorsOf(rule, 1.0 / control.loss_scale, control.updates);
  return control;
}

std::array<uint32_t, sizeof(device::UpdateFactors) / sizeof(uint32_t)> BitsOf(const device::UpdateFactors& factors) {
  return std::bit_cast<std::array<uint32_t, sizeof factors / sizeof(uint32_t)>>(factors);
}

}  // namespace

std::vector<memory::MemoryRow> Speculation::Rows(const ZeroLayout& layout) {
  std::vector<memory::MemoryRow> rows;
  if (!layout.speculates()) return rows;
  for (const optim::OptimizerVector& vector : layout.optimizer().vectors) {
    rows.push_back({memory::Space::kHost, memory::Category::kBuffers, CopyRow(vector),
                    layout.states_on_host() * device::DTypeBytes(vector.dtype)});
  }
  return rows;
}

Speculation::Speculation(const ZeroLayout& layout, device::Device& host, memory::Arena& host_arena)
    : layout_(layout), host_(host) {
  for (const optim::OptimizerVector& vector : layout.optimizer().vectors) {
    copies_.push_back({host_arena.Take(CopyRow(vector)), vector.dtype});
  }
}

void Speculation::Begin(const device::StepControl& before, const device::StepRule& rule) {
  ZF_CHECK(!guessing_);
  guessing_ = true;
  guess_ = Guess(before, rule);
  ++guesses_;
}

absl::Status Speculation::Keep(device::Stream& stream, TrainingState& state, int64_t offset, int64_t count) {
  ZF_CHECK(guessing_);
  for (size_t v = 0; v < copies_.size(); ++v) {
    void* const to = copies_[v].Offset(offset - layout_.states_on_device()).data;
    ZF_RETURN_IF_ERROR(state.CopyOut(host_, stream, v, offset, count, to));
  }
  kept_.push_back({offset, count});
  return absl::OkStatus();
}

absl::StatusOr<bool> Speculation::End(device::Stream& stream, const device::StepControl& decided,
                                      TrainingState& state) {
  ZF_CHECK(guessing_);
  guessing_ = false;
  const std::vector<Range> kept = std::exchange(kept_, {});
  // These are all the members that an optimizer reads.
  if (decided.apply == guess_.apply && BitsOf(decided.factors) == BitsOf(guess_.factors)) return true;
  for (const Range& range : kept) {
    for (size_t v = 0; v < copies_.size(); ++v) {
      const void* const from = copies_[v].Offset(range.offset - layout_.states_on_device()).data;
      ZF_RETURN_IF_ERROR(state.CopyIn(host_, stream, v, range.offset, range.count, from));
    }
  }
  ++undone_;
  return false;
}

}  // namespace zerofleet::zero
