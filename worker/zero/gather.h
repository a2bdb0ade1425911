// Parameters when they are needed: resident in stages 0 to 2, gathered unit by unit in stage 3 (ZeRO §5.3, §7.2.2).
//
// In stage 3 a unit's all-gather is posted one use ahead, into a slot that is free by then, so that it runs while the
// previous unit computes; a released unit's slot is reused. Gathering each parameter for the forward and again for the
// backward is what makes stage 3 send 3Ψ(N-1)/N elements per step instead of 2Ψ(N-1)/N.
//
// Parameters that rest in host memory (ZeroLayout::parameters_on_host) are in device memory only while they are
// gathered: this rank's shard is copied to its place in the slot, also one use ahead, while the device computes.
#ifndef ZEROFLEET_WORKER_ZERO_GATHER_H_
#define ZEROFLEET_WORKER_ZERO_GATHER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/link_traffic.h"
#include "worker/zero/engine_parts.h"
#include "worker/zero/phases.h"
#include "worker/zero/prefetch.h"
#include "worker/zero/slots.h"

namespace zerofleet::zero {

class ParameterGatherer {
 public:
  // Every use is enqueued on the parts' stream; waits for gathers are marked in `marks`.
  ParameterGatherer(const EngineParts& parts, PhaseMarks& marks);

  // This rank's resting parameters: whole units, or its shards, in device memory or the host's.
  device::Tensor resting() const { return resting_; }

  // Announces the uses of the next pass, in order; the pass before must be over.
  void Begin(std::vector<int> uses);
  // Returns the whole unit, which must be the next use announced. The stream waits for its gather; the next one's is
  // posted.
  absl::StatusOr<device::Tensor> Acquire(int unit);
  void Release(int unit);

  // Called after the optimizer, for every unit in order. Where the stage keeps whole units that only the update splits,
  // posts the gather that makes the unit whole again on every rank; Acquire waits for it.
  void PublishUnit(int unit);
  // Waits on the host for everything posted.
  absl::Status Finish();

  // Traffic of parameters that rest in host memory.
  device::LinkTraffic link() const { return link_; }

 private:
  void Post(int unit);
  // Copies this rank's shard to its place in the unit's slot, and gathers it from there.
  void PostFromHost(int unit);
  device::Tensor Whole(int unit) const;

  const EngineParts& parts_;
  const ZeroLayout& layout_;
  PhaseMarks& marks_;
  device::Tensor resting_;
  std::unique_ptr<device::Stream> in_;  // copies from the host; null where parameters rest on the device
  device::LinkTraffic link_;
  SlotPlan slots_;
  PrefetchOrder prefetch_;
  std::vector<device::Tensor> slot_memory_;                    // stage 3 only
  std::vector<collective::Communicator::Pending> unit_ready_;  // by unit: its latest gather
  std::vector<bool> stream_waits_;  // by unit: whether the stream has been made to wait for it
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_GATHER_H_
