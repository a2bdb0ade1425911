// One NVIDIA GPU as a device: memory from plain cudaMalloc, its streams (cuda_stream.h) and its ops (cuda_ops.h).
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/device/cpu/cpu_device.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/pinned_memory.h"
#include "worker/device/device.h"
#include "worker/device/profile/profiled_ops.h"

namespace zerofleet::device::cuda {

// Whether this machine has GPUs that this build can use. FailedPrecondition, with one line that says what is missing,
// if there is no driver, no GPU, or no GPU that this build has code for. Sets nothing up on the GPU.
absl::Status CheckCudaDevice();

class CudaDevice : public Device {
 public:
  // Uses the visible GPU (CUDA_VISIBLE_DEVICES) number `local_rank` modulo their count. `threads` is host()'s number of
  // threads. Errors as from CheckCudaDevice, and any from setting up the GPU and its libraries.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(int local_rank, int threads = 1);
  ~CudaDevice() override;

  std::string kind() const override { return "cuda"; }
  std::string description() const override { return description_; }
  std::vector<Fact> arithmetic() const override;
  std::string unique_id() const override { return unique_id_; }
  absl::StatusOr<std::unique_ptr<Reservation>> Reserve(int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<Reservation>> ReserveHost(int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override;
  absl::StatusOr<std::unique_ptr<Stream>> CreateUrgentStream() override;
  void Copy(Stream& stream, void* to, const void* from, int64_t bytes) override;
  bool host_addressable() const override { return false; }
  double datasheet_flops(DType dtype) const override;
  std::optional<DeviceMemory> memory() const override;
  Ops& ops() override {
    if (profiled_ != nullptr) return *profiled_;
    return *ops_;
  }
  Device& host() override { return host_; }

  int ordinal() const override { return ordinal_; }

 private:
  CudaDevice(int ordinal, std::string name, std::string unique_id, std::string description,
             std::unique_ptr<CudaOps> ops, int threads);

  const int ordinal_;
  const std::string name_, unique_id_, description_;
  std::unique_ptr<CudaOps> ops_;
  const std::shared_ptr<PinnedMemory> pinned_;
  CpuDevice host_;
  std::unique_ptr<ProfiledOps> profiled_;  // null unless the host's ops are profiled too
};

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_CUDA_DEVICE_H_
