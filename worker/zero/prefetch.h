// Which gathers to post at each use of a unit: a pure function of the order of uses, the same on every rank.
#ifndef ZEROFLEET_WORKER_ZERO_PREFETCH_H_
#define ZEROFLEET_WORKER_ZERO_PREFETCH_H_

#include <cstddef>
#include <vector>

#include "worker/zero/slots.h"

namespace zerofleet::zero {

class PrefetchOrder {
 public:
  explicit PrefetchOrder(const SlotPlan& slots) : slots_(slots), holder_(slots.unit_of_slot.size(), -1) {}

  // Announces the uses of the next pass, in order; every use announced before must have been acquired and released.
  void Begin(std::vector<int> uses);
  // The units to gather now, in order: `unit`, the next use announced, unless it was posted ahead; and the use after
  // it, if its slot is free.
  std::vector<int> Acquire(int unit);
  void Release(int unit);

 private:
  int Post();

  const SlotPlan slots_;
  std::vector<int> holder_;  // by slot: the unit gathered into it, or -1
  std::vector<int> uses_;
  size_t next_acquire_ = 0, next_post_ = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_PREFETCH_H_
