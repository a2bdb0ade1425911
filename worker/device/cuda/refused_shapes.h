// The shapes that ran on slower kernels, each noted once.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_REFUSED_SHAPES_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_REFUSED_SHAPES_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/device/refused_shape.h"

namespace zerofleet::device::cuda {

// Used by one thread at a time.
class RefusedShapes {
 public:
  void Note(RefusedShape refused) {
    if (known_.insert({refused.op, refused.shape}).second) new_.push_back(std::move(refused));
  }
  std::vector<RefusedShape> Take() { return std::exchange(new_, {}); }

 private:
  std::set<std::pair<std::string, std::string>> known_;
  std::vector<RefusedShape> new_;
};

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_REFUSED_SHAPES_H_
