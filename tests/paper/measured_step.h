// What a step of a fleet takes and sends, measured on one rank.
#ifndef ZEROFLEET_TESTS_PAPER_MEASURED_STEP_H_
#define ZEROFLEET_TESTS_PAPER_MEASURED_STEP_H_

#include <cstdint>

#include "base/check.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {

struct MeasuredStep {
  int64_t device = 0, host = 0;  // peak bytes of activations
  int64_t tensor_bytes = 0;      // sent within the tensor group
  device::LinkTraffic link;
};

// The step of a rank with the first part of the model.
inline MeasuredStep MeasureStep(const FleetSetup& setup) {
  MeasuredStep measured;
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    rank.Step(1);
    ZF_CHECK(rank.engine().Finish().ok());
    if (rank.layout().part().index != 0) return;
    constexpr int kActivations = static_cast<int>(memory::Category::kActivations);
    measured.device = rank.arena().figures().categories[kActivations].peak;
    measured.host = rank.host_arena().figures().categories[kActivations].peak;
    measured.link = rank.engine().link();
    if (setup.tensor == 1) return;
    for (const auto& [operation, totals] : rank.tensor().totals()) measured.tensor_bytes += totals.bytes;
  });
  return measured;
}

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_TESTS_PAPER_MEASURED_STEP_H_
