// The only file that knows which devices this build has.
#include "absl/strings/str_cat.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/device.h"

namespace zerofleet {

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(const DeviceOptions& options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(absl::StrCat("device threads is ", options.threads, "; it must be at least 1"));
  }
  if (options.kind == "auto" || options.kind == "cpu") return std::make_unique<CpuDevice>(options.threads);
  if (options.kind == "cuda") {
    return absl::FailedPreconditionError("device cuda is not in this build; use cpu or auto");
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown device '", options.kind, "'; use auto, cpu or cuda"));
}

}  // namespace zerofleet
