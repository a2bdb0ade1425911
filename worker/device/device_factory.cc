// The only file that knows which devices this build has.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cpu/isa.h"
#include "worker/device/device.h"
#ifdef ZEROFLEET_CUDA
#include "worker/device/cuda/cuda_device.h"
#endif

namespace zerofleet::device {

#ifdef ZEROFLEET_CUDA

std::vector<std::string> DeviceKindsBuilt() { return {"cpu", "cuda"}; }

namespace {

absl::Status CheckCuda() { return cuda::CheckCudaDevice(); }
absl::StatusOr<std::unique_ptr<Device>> CreateCuda(const DeviceOptions& options) {
  return cuda::CudaDevice::Create(options.local_rank, options.threads);
}

}  // namespace

#else

std::vector<std::string> DeviceKindsBuilt() { return {"cpu"}; }

namespace {

absl::Status CheckCuda() { return absl::FailedPreconditionError("device cuda is not in this build; use cpu or auto"); }
absl::StatusOr<std::unique_ptr<Device>> CreateCuda(const DeviceOptions&) { return CheckCuda(); }

}  // namespace

#endif

int64_t PackedOperandBytes(DType dtype) {
  constexpr int64_t kMeasured = int64_t{9} << 20;
  return dtype == DType::kBF16 && absl::StrContains(IsaName(), "bf16") ? kMeasured : 0;
}

absl::StatusOr<std::string> ResolveDeviceKind(const std::string& kind) {
  if (kind == "cpu") return kind;
  if (kind == "auto") {
    const absl::Status cuda = CheckCuda();
    if (cuda.ok()) return "cuda";
    if (absl::IsFailedPrecondition(cuda)) return "cpu";
    // A GPU that is there and fails: to go on without it would hide that.
    return absl::Status(cuda.code(), absl::StrCat(cuda.message(), "; choose cpu to do without the GPU"));
  }
  if (kind != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("unknown device '", kind, "'; use auto, cpu or cuda"));
  }
  ZF_RETURN_IF_ERROR(CheckCuda());
  return kind;
}

absl::Status PinInstructionSet(const std::string& isa) { return PinIsa(isa); }

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(const DeviceOptions& options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(absl::StrCat("device threads is ", options.threads, "; it must be at least 1"));
  }
  ZF_ASSIGN_OR_RETURN(const std::string kind, ResolveDeviceKind(options.kind));
  if (kind == "cuda") return CreateCuda(options);
  auto device = std::make_unique<CpuDevice>(options.threads);
  if (device->threads() < options.threads) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cpu device can start only ", device->threads(), " of ", options.threads,
                     " threads; use fewer (--threads), or raise the limits on processes and memory"));
  }
  return device;
}

}  // namespace zerofleet::device
