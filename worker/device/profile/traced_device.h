// A device that tells of every op and of every copy.
#ifndef ZEROFLEET_WORKER_DEVICE_PROFILE_TRACED_DEVICE_H_
#define ZEROFLEET_WORKER_DEVICE_PROFILE_TRACED_DEVICE_H_

#include <memory>

#include "worker/device/device.h"
#include "worker/device/profile/op_sink.h"

namespace zerofleet::device {

// `device`, whose ops and copies `sink`, which outlives it, is told of. One whose ops run behind the host, a GPU, is
// returned as it is: the host's clock says nothing about them.
std::unique_ptr<Device> TraceOps(std::unique_ptr<Device> device, OpSink& sink);

// The name under which copies are told.
inline constexpr char kCopyName[] = "Copy";

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_PROFILE_TRACED_DEVICE_H_
