// See cuda_device.h.
#include "worker/device/cuda/cuda_device.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/device/cuda/attention_cudnn.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/datasheet.h"

namespace zerofleet::device::cuda {
namespace {

// The oldest compute capability that the build compiles for, major * 10 + minor.
constexpr int kOldestArchitecture = 80;

class DeviceReservation : public Reservation {
 public:
  DeviceReservation(int ordinal, std::byte* data, int64_t bytes) : ordinal_(ordinal), data_(data), bytes_(bytes) {}
  ~DeviceReservation() override {
    if (data_ == nullptr) return;
    cudaSetDevice(ordinal_);
    cudaFree(data_);  // waits for work that uses the memory
  }
  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  const int ordinal_;
  std::byte* const data_;
  const int64_t bytes_;
};

class PinnedReservation : public Reservation {
 public:
  PinnedReservation(std::shared_ptr<PinnedMemory> memory, std::byte* data, int64_t bytes)
      : memory_(std::move(memory)), data_(data), bytes_(bytes) {}
  ~PinnedReservation() override {
    if (data_ != nullptr) memory_->Return(data_, bytes_);
  }
  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  const std::shared_ptr<PinnedMemory> memory_;
  std::byte* const data_;
  const int64_t bytes_;
};

// 13000 -> "13.0".
std::string VersionText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

// The number of GPUs this process sees; at least one.
absl::StatusOr<int> CountGpus() {
  int count = 0, driver = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (code == cudaSuccess && count > 0) return count;
  if (code == cudaSuccess || code == cudaErrorNoDevice) {
    return absl::FailedPreconditionError(
        "device cuda: this machine shows no NVIDIA GPU (cudaErrorNoDevice); use cpu or auto");
  }
  if (code == cudaErrorStubLibrary) {
    return absl::FailedPreconditionError(
        absl::StrCat("device cuda: ", cudaGetErrorString(code), " (", cudaGetErrorName(code), "); use cpu or auto"));
  }
  if (code != cudaErrorInsufficientDriver) return CudaStatus(code, "device cuda");
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device cuda: the driver knows CUDA ", VersionText(driver), " and this build needs ",
        VersionText(CUDART_VERSION), " (cudaErrorInsufficientDriver); update the driver, or use cpu or auto"));
  }
  return absl::FailedPreconditionError(
      "device cuda: no CUDA driver on this machine (cudaErrorInsufficientDriver); use cpu or auto");
}

// Whether the build has code for GPU `ordinal`. Single attributes are cheap to query, unlike all properties.
absl::Status CheckArchitecture(int ordinal) {
  int major = 0, minor = 0;
  ZF_RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal), "device cuda"));
  ZF_RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal), "device cuda"));
  if (major * 10 + minor >= kOldestArchitecture) return absl::OkStatus();
  cudaDeviceProp properties;
  ZF_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, ordinal), "device cuda"));
  return absl::FailedPreconditionError(absl::StrCat("device cuda: ", properties.name, " is sm_", major, minor,
                                                    " and this build has code for sm_", kOldestArchitecture,
                                                    " and newer; use cpu or auto"));
}

// "GPU-" and 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12, as nvidia-smi prints it.
std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// Whether `at` is in pageable memory, which CUDA did not allocate and cannot keep in place during a copy.
bool IsPageable(const void* at) {
  cudaPointerAttributes attributes;
  const cudaError_t code = cudaPointerGetAttributes(&attributes, at);
  if (code != cudaSuccess) cudaGetLastError();
  return code != cudaSuccess || attributes.type == cudaMemoryTypeUnregistered;
}

absl::Status CannotReserve(int64_t bytes) {
  size_t free = 0, total = 0;
  std::string room;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
    room = absl::StrCat(": ", HumanBytes(static_cast<int64_t>(free)), " of its ",
                        HumanBytes(static_cast<int64_t>(total)), " are free");
  }
  return absl::ResourceExhaustedError(absl::StrCat("the cuda device cannot reserve ", HumanBytes(bytes), room));
}

}  // namespace

// One GPU that the build has code for is enough: another card, an older one, may drive the display.
absl::Status CheckCudaDevice() {
  ZF_ASSIGN_OR_RETURN(const int count, CountGpus());
  absl::Status status;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    status = CheckArchitecture(ordinal);
    if (status.ok()) break;
  }
  return status;
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(int local_rank, int threads) {
  ZF_CHECK(local_rank >= 0);
  ZF_ASSIGN_OR_RETURN(const int count, CountGpus());
  const int ordinal = local_rank % count;
  ZF_RETURN_IF_ERROR(CheckArchitecture(ordinal));
  cudaDeviceProp properties;
  ZF_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, ordinal), "device cuda"));
  ZF_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(ordinal), "cudaSetDevice"));
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<CudaOps> ops, CudaOps::Create());
  std::string uuid = UuidText(properties.uuid);
  std::string description = absl::StrCat(properties.name, ", sm_", properties.major, properties.minor, ", ", uuid);
  // The worker's log and zerofleet_worker_info show which attention is used, and the GPU test suite stops if it is the
  // slow one.
  const std::string& refusal = ops->fused_attention_refusal();
  absl::StrAppend(&description,
                  refusal.empty() ? ", attention: cudnn" : absl::StrCat(", attention: tiled (slow: ", refusal, ")"));
  return std::unique_ptr<CudaDevice>(
      new CudaDevice(ordinal, properties.name, std::move(uuid), std::move(description), std::move(ops), threads));
}

CudaDevice::CudaDevice(int ordinal, std::string name, std::string unique_id, std::string description,
                       std::unique_ptr<CudaOps> ops, int threads)
    : ordinal_(ordinal),
      name_(std::move(name)),
      unique_id_(std::move(unique_id)),
      description_(std::move(description)),
      ops_(std::move(ops)),
      pinned_(std::make_shared<PinnedMemory>(ordinal)),
      host_(threads) {
  if (host_.profile() == nullptr) return;
  profiled_ = std::make_unique<ProfiledOps>(*ops_, *host_.profile(), ProfiledOps::Where::kBehindHost);
}

std::vector<Fact> CudaDevice::arithmetic() const {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  std::vector<Fact> facts = {{"GPU", name_},
                             {"CUDA driver", VersionText(driver)},
                             {"cuBLASLt", absl::StrCat(cublasLtGetVersion())},
                             {"cuDNN", absl::StrCat(CudnnVersion())}};
  // The host's facts matter for offloaded optimizers and for sums.
  for (Fact& fact : host_.arithmetic()) facts.push_back(std::move(fact));
  return facts;
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(ordinal_);  // the GPU whose resources the ops release
  profiled_.reset();
  ops_.reset();
}

absl::StatusOr<std::unique_ptr<Reservation>> CudaDevice::Reserve(int64_t bytes) {
  ZF_CHECK(bytes >= 0);
  if (bytes == 0) return std::make_unique<DeviceReservation>(ordinal_, nullptr, 0);
  ZF_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(ordinal_), "cudaSetDevice"));
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // otherwise the next launch would report it
    return CannotReserve(bytes);
  }
  ZF_RETURN_IF_ERROR(CudaStatus(code, "cudaMalloc"));
  auto reservation = std::make_unique<DeviceReservation>(ordinal_, static_cast<std::byte*>(data), bytes);
  // cudaMemset returns before it is done, and our streams do not wait for the default stream.
  ZF_RETURN_IF_ERROR(CudaStatus(cudaMemset(data, 0, static_cast<size_t>(bytes)), "cudaMemset"));
  ZF_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(nullptr), "cudaMemset"));
  return reservation;
}

absl::StatusOr<std::unique_ptr<Reservation>> CudaDevice::ReserveHost(int64_t bytes) {
  ZF_CHECK(bytes >= 0);
  if (bytes == 0) return std::make_unique<PinnedReservation>(pinned_, nullptr, 0);
  ZF_ASSIGN_OR_RETURN(std::byte* const data, pinned_->Take(bytes));
  std::memset(data, 0, static_cast<size_t>(bytes));
  return std::make_unique<PinnedReservation>(pinned_, data, bytes);
}

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::CreateStream() { return CudaStream::Create(ordinal_); }

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::CreateUrgentStream() {
  return CudaStream::Create(ordinal_, /*urgent=*/true);
}

void CudaDevice::Copy(Stream& stream, void* to, const void* from, int64_t bytes) {
  ZF_CHECK(bytes >= 0);
  if (bytes == 0) return;
  CudaStream& cuda_stream = static_cast<CudaStream&>(stream);
  cuda_stream.MakeCurrent();
  cuda_stream.Keep(
      CudaStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, cuda_stream.handle()),
                 "cudaMemcpyAsync"));
  // On some machines the driver stages pageable memory before it returns, on others it reads the memory in place later.
  // Only with a wait may the caller reuse its buffer on all machines.
  if (IsPageable(to) || IsPageable(from)) {
    cuda_stream.Keep(CudaStatus(cudaStreamSynchronize(cuda_stream.handle()), "cudaMemcpyAsync"));
  }
}

double CudaDevice::datasheet_flops(DType dtype) const { return DatasheetFlops(name_, dtype); }

std::optional<DeviceMemory> CudaDevice::memory() const {
  size_t free = 0, total = 0;
  if (cudaSetDevice(ordinal_) != cudaSuccess || cudaMemGetInfo(&free, &total) != cudaSuccess) return std::nullopt;
  return DeviceMemory{.total_bytes = static_cast<int64_t>(total),
                      .used_bytes = static_cast<int64_t>(total - free),
                      .workspace_bytes = ops_->workspace_bytes()};
}

}  // namespace zerofleet::device::cuda
