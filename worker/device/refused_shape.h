// A shape that a vendor's library refuses.
#ifndef ZEROFLEET_WORKER_DEVICE_REFUSED_SHAPE_H_
#define ZEROFLEET_WORKER_DEVICE_REFUSED_SHAPE_H_

#include <string>

namespace zerofleet::device {

// An op on a shape that the backend's fast library refuses, so that it runs on slower kernels. The results have the
// same accuracy; only speed differs.
struct RefusedShape {
  std::string op;      // the op's name: "AttentionBackward"
  std::string shape;   // "bf16, 4 x 25 heads x 1024 x 64"
  std::string reason;  // the library's, or why the library was not called
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_REFUSED_SHAPE_H_
