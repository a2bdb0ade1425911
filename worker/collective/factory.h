// The only place that knows which collective backends exist.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_FACTORY_H_
#define ZEROFLEET_WORKER_COLLECTIVE_FACTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/endpoint.h"
#include "worker/device/device.h"

namespace zerofleet::collective {

// Creates the endpoint for groups named `groups`, or for one named "data". `backend` is spelled as in the
// configuration: "auto", "ucx", "nccl" or "in_process" (for a fleet of one worker). Buffers are in the memory of
// `device`, which must outlive the endpoint and its communicators.
//
// On memory that the host cannot address, ucx and in_process go through pinned staging (staged.h), and auto is nccl, or
// ucx where two ranks share a GPU or one of them has no NCCL; until Join its backend() is "auto". On host memory auto
// is ucx, and shared memory for a group whose ranks share a machine.
//
// FailedPrecondition for a backend that this build lacks or that cannot serve this device, InvalidArgument for any
// other name.
absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateCollectiveEndpoint(const std::string& backend,
                                                                             device::Device& device,
                                                                             const std::vector<std::string>& groups);
inline absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateCollectiveEndpoint(const std::string& backend,
                                                                                    device::Device& device) {
  return CreateCollectiveEndpoint(backend, device, {"data"});
}

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_FACTORY_H_
