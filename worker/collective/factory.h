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

// The endpoint that joins groups of the names `groups`; of the name "data" where none are given. `backend` as the
// configuration spells it: "auto", "ucx", "nccl" or "in_process", for buffers in the memory of `device`, which outlives
// the endpoint and its communicator. "in_process" is for a fleet of one worker.
//
// On memory that the host cannot address, ucx and in_process go through pinned staging (staged.h), and auto is nccl, or
// ucx where two ranks share a GPU or one of them has no NCCL; until Join its backend() is "auto". On host memory auto
// is ucx, and shared memory for a group whose ranks share a machine.
//
// FailedPrecondition for one that is not in this build or not for this device, InvalidArgument for any other name.
absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateCollectiveEndpoint(const std::string& backend,
                                                                             device::Device& device,
                                                                             const std::vector<std::string>& groups);
inline absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateCollectiveEndpoint(const std::string& backend,
                                                                                    device::Device& device) {
  return CreateCollectiveEndpoint(backend, device, {"data"});
}

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_FACTORY_H_
