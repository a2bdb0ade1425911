// A device that reports every op and every copy to a sink.
#ifndef ZEROFLEET_WORKER_DEVICE_PROFILE_TRACED_DEVICE_H_
#define ZEROFLEET_WORKER_DEVICE_PROFILE_TRACED_DEVICE_H_

#include <memory>

#include "worker/device/device.h"
#include "worker/device/profile/op_sink.h"

namespace zerofleet::device {

// `device`, with its ops and copies reported to `sink`, which must outlive it. A device whose ops run behind the host
// (a GPU) is returned unchanged: the host's clock says nothing about its ops.
std::unique_ptr<Device> TraceOps(std::unique_ptr<Device> device, OpSink& sink);

// The name under which copies are reported.
inline constexpr char kCopyName[] = "Copy";

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_PROFILE_TRACED_DEVICE_H_
