// The only place that knows which collective backends exist.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_FACTORY_H_
#define ZEROFLEET_WORKER_COLLECTIVE_FACTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/collective/endpoint.h"

namespace zerofleet {

// `backend` as the configuration spells it: "auto", "ucx", "nccl" or "in_process". "in_process" is for a fleet of one
// worker. FailedPrecondition for one that is not in this build, InvalidArgument for any other name.
absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateCollectiveEndpoint(const std::string& backend);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_COLLECTIVE_FACTORY_H_
