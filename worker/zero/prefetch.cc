// One use ahead, if there is a slot; see prefetch.h.
#include "worker/zero/prefetch.h"

#include <utility>

#include "base/check.h"

namespace zerofleet::zero {

void PrefetchOrder::Begin(std::vector<int> uses) {
  ZF_CHECK(next_acquire_ == uses_.size());
  for (int holder : holder_) ZF_CHECK(holder == -1);
  uses_ = std::move(uses);
  next_acquire_ = next_post_ = 0;
}

std::vector<int> PrefetchOrder::Acquire(int unit) {
  ZF_CHECK(next_acquire_ < uses_.size());
  ZF_CHECK(uses_[next_acquire_] == unit);
  std::vector<int> posts;
  if (next_post_ == next_acquire_) posts.push_back(Post());
  ++next_acquire_;
  if (next_post_ < uses_.size() && holder_[slots_.slot_of_unit[uses_[next_post_]]] == -1) posts.push_back(Post());
  return posts;
}

void PrefetchOrder::Release(int unit) {
  int& holder = holder_[slots_.slot_of_unit[unit]];
  ZF_CHECK(holder == unit);
  holder = -1;
}

int PrefetchOrder::Post() {
  int unit = uses_[next_post_++];
  int& holder = holder_[slots_.slot_of_unit[unit]];
  ZF_CHECK(holder == -1);
  holder = unit;
  return unit;
}

}  // namespace zerofleet::zero
