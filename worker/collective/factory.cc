// A new backend is one row here.
#include "worker/collective/factory.h"

#include "worker/collective/in_process.h"
#include "worker/collective/ucx.h"

namespace zerofleet {

absl::StatusOr<std::unique_ptr<CollectiveEndpoint>> CreateCollectiveEndpoint(const std::string& backend) {
  if (backend == "auto" || backend == "ucx") return UcxEndpoint::Create();
  if (backend == "in_process") return CreateInProcessEndpoint();
  if (backend == "nccl")
    return absl::FailedPreconditionError("collectives: nccl needs a build with CUDA; use auto or ucx");
  return absl::InvalidArgumentError("collectives: \"" + backend + "\" is not one of auto, ucx, nccl, in_process");
}

}  // namespace zerofleet
