// Every call to NCCL, and its return codes as Status.
#include "worker/collective/nccl_transport.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/collective/address.h"
#include "worker/device/cuda/libraries/vendor_library.h"

namespace zerofleet::collective {
namespace {

static_assert(kNcclIdBytes == NCCL_UNIQUE_ID_BYTES);

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// About what one communicator's buffers take. With less than this free, a failure is taken for a lack of memory.
constexpr size_t kBuffersBytes = size_t{512} << 20;

absl::Status CudaError(std::string message) {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess || free >= kBuffersBytes) return absl::InternalError(message);
  return absl::ResourceExhaustedError(absl::StrCat(
      message, "; ", HumanBytes(static_cast<int64_t>(free)), " of the GPU's ", HumanBytes(static_cast<int64_t>(total)),
      " are free, and NCCL's buffers come on top of the planned memory: set memory.device_limit lower"));
}

absl::Status MakeError(ncclResult_t result, const std::string& where, const char* detail) {
  std::string message = absl::StrCat(where, ": ", ncclGetErrorString(result));
  if (detail != nullptr && *detail != '\0') absl::StrAppend(&message, " (", detail, ")");
  switch (result) {
    // Failures of sockets and shared memory; a peer that is gone shows as either of these.
    case ncclSystemError:
    case ncclRemoteError: return absl::UnavailableError(message);
    case ncclInvalidUsage: return absl::FailedPreconditionError(message);
    // Also what NCCL returns when an allocation fails, and it allocates beside what the memory plan has reserved.
    case ncclUnhandledCudaError: return CudaError(std::move(message));
    default: return absl::InternalError(message);
  }
}

constexpr int kOldestNccl = NCCL_VERSION(2, 28, 0);

// 22809 -> "2.28.9".
std::string VersionText(int version) {
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

// The pause between two polls: most waits are short, so the first polls follow each other closely.
class Pause {
 public:
  void Take() {
    if (looks_ < kCloseLooks) {
      looks_++;
      std::this_thread::yield();
    } else {
      absl::SleepFor(absl::Microseconds(20));
    }
  }

 private:
  static constexpr int kCloseLooks = 200;
  int looks_ = 0;
};

// Finalizes `comm`; false where NCCL reports an error or the other ranks do not finish within the limit.
bool FinalizedWithin(ncclComm_t comm, double limit_seconds) {
  const auto goes_on = [](ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; };
  const double start = Clock::Real().MonotonicSeconds();
  if (!goes_on(ncclCommFinalize(comm))) return false;
  for (Pause pause; Clock::Real().MonotonicSeconds() - start < limit_seconds; pause.Take()) {
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess || !goes_on(state)) return false;
    if (state == ncclSuccess) return true;
  }
  return false;
}

// Runs `calls` on a thread of its own, with the caller's GPU current, and notifies what it returns when they are done.
std::shared_ptr<absl::Notification> InBackground(std::function<void()> calls) {
  int device = 0;
  cudaGetDevice(&device);
  auto done = std::make_shared<absl::Notification>();
  std::thread([calls = std::move(calls), device, done] {
    cudaSetDevice(device);
    calls();
    done->Notify();
  }).detach();
  return done;
}

}  // namespace

absl::StatusOr<std::string> NcclTransport::CreateId() {
  ZF_RETURN_IF_ERROR(device::cuda::OpenNccl());
  int version = 0;
  ncclResult_t result = ncclGetVersion(&version);
  if (result != ncclSuccess) return MakeError(result, "ncclGetVersion", nullptr);
  // All releases share one file name. Before 2.26, KeepLaunchOrder (network.h) has no effect.
  if (version < kOldestNccl) {
    return absl::FailedPreconditionError(absl::StrCat("collectives nccl: this machine's NCCL is ", VersionText(version),
                                                      " and this build needs ", VersionText(kOldestNccl),
                                                      "; install that, or use ucx"));
  }
  ncclUniqueId id;
  result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) return MakeError(result, "ncclGetUniqueId", ncclGetLastError(nullptr));
  return std::string(id.internal, sizeof id.internal);
}

NcclTransport::NcclTransport(std::string id, int rank, int size, std::string place, double abort_limit_seconds)
    : id_(std::move(id)),
      place_(std::move(place)),
      rank_(rank),
      size_(size),
      abort_limit_seconds_(abort_limit_seconds) {
  ZF_CHECK(id_.size() == kNcclIdBytes);
}

NcclTransport::~NcclTransport() { Abort(); }

absl::Status NcclTransport::Error(ncclResult_t result, std::string_view op) const {
  return MakeError(result, absl::StrCat(View(op), " in ", place_), ncclGetLastError(comm_));
}

absl::Status NcclTransport::Check(ncclResult_t result, std::string_view op) const {
  return result == ncclSuccess || result == ncclInProgress ? absl::OkStatus() : Error(result, op);
}

absl::StatusOr<bool> NcclTransport::Settled(std::string_view op) {
  ncclResult_t state = ncclSuccess;
  ZF_RETURN_IF_ERROR(Check(ncclCommGetAsyncError(comm_, &state), op));
  ZF_RETURN_IF_ERROR(Check(state, op));
  return state == ncclSuccess;
}

absl::Status NcclTransport::Connect(const Clock& clock, Watch watch) {
  constexpr std::string_view kOp = "ncclCommInitRankConfig";
  if (connected_) return absl::OkStatus();
  ncclUniqueId id;
  std::memcpy(id.internal, id_.data(), sizeof id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const double start = clock.MonotonicSeconds();
  ZF_RETURN_IF_ERROR(Check(ncclCommInitRankConfig(&comm_, size_, id, rank_, &config), kOp));
  for (Pause pause;; pause.Take()) {
    ZF_RETURN_IF_ERROR(watch());
    ZF_ASSIGN_OR_RETURN(connected_, Settled(kOp));
    if (connected_) return absl::OkStatus();
    if (clock.MonotonicSeconds() - start > kNcclConnectLimitSeconds) {
      return absl::DeadlineExceededError(absl::StrCat(
          View(kOp), " in ", place_, ": the other ranks did not come within ", kNcclConnectLimitSeconds, " seconds"));
    }
  }
}

absl::Status NcclTransport::Group(std::string_view op, absl::FunctionRef<absl::Status()> enqueue, Watch watch) {
  ZF_RETURN_IF_ERROR(Check(ncclGroupStart(), op));
  // Ends the group even after an error: the group's depth belongs to the thread, not the communicator.
  absl::Status status = enqueue();
  status.Update(Check(ncclGroupEnd(), op));
  ZF_RETURN_IF_ERROR(status);
  for (Pause pause;; pause.Take()) {
    ZF_RETURN_IF_ERROR(watch());
    ZF_ASSIGN_OR_RETURN(const bool settled, Settled(op));
    if (settled) return absl::OkStatus();
  }
}

absl::Status NcclTransport::AllGather(const void* part, void* whole, int64_t part_bytes, cudaStream_t stream) {
  return Check(ncclAllGather(part, whole, part_bytes, ncclInt8, comm_, stream), "ncclAllGather");
}

absl::Status NcclTransport::Broadcast(const void* from, void* to, int64_t bytes, int root, cudaStream_t stream) {
  return Check(ncclBroadcast(from, to, bytes, ncclInt8, root, comm_, stream), "ncclBroadcast");
}

absl::Status NcclTransport::Send(const void* from, int64_t bytes, int peer, cudaStream_t stream) {
  return Check(ncclSend(from, bytes, ncclInt8, peer, comm_, stream), "ncclSend");
}

absl::Status NcclTransport::Receive(void* to, int64_t bytes, int peer, cudaStream_t stream) {
  return Check(ncclRecv(to, bytes, ncclInt8, peer, comm_, stream), "ncclRecv");
}

// ncclCommAbort waits for NCCL's kernels and threads, forever if one of them does not notice the abort. So it is called
// on a thread of its own, which is then left behind.
void NcclTransport::Abort() {
  connected_ = false;
  if (comm_ == nullptr) return;
  const auto done = InBackground([comm = std::exchange(comm_, nullptr)] { ncclCommAbort(comm); });
  done->WaitForNotificationWithTimeout(absl::Seconds(abort_limit_seconds_));
}

// By NCCL's own account ncclCommDestroy is a collective call among the ranks of a host, so a peer that is gone may hold
// it up as it may an abort; ncclCommFinalize returns at once in non-blocking mode. One thread makes all the calls: none
// may be made beside another that has not returned, or after ncclCommDestroy.
void NcclTransport::Finish(double limit_seconds) {
  if (!std::exchange(connected_, false)) return Abort();
  const auto finalized = std::make_shared<absl::Notification>();
  const auto done = InBackground([comm = std::exchange(comm_, nullptr), finalized, limit_seconds] {
    const bool in_time = FinalizedWithin(comm, limit_seconds);
    finalized->Notify();
    if (in_time)
      ncclCommDestroy(comm);
    else
      ncclCommAbort(comm);
  });
  finalized->WaitForNotificationWithTimeout(absl::Seconds(limit_seconds));
  done->WaitForNotificationWithTimeout(absl::Seconds(abort_limit_seconds_));
}

}  // namespace zerofleet::collective
