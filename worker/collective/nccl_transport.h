// One rank's NCCL communicator, which connects without blocking, is watched during every wait, and ends without
// hanging.
//
// NCCL is used in its non-blocking mode: a call may return before anything is on the stream, and the communicator's
// asynchronous state says when it is and whether it failed. So Group waits for that state before it returns; only then
// may events be recorded behind it. All functions must be called on one thread, on which the GPU has been made current.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_NCCL_TRANSPORT_H_
#define ZEROFLEET_WORKER_COLLECTIVE_NCCL_TRANSPORT_H_

#include <driver_types.h>
#include <nccl.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "worker/device/device.h"

namespace zerofleet::collective {

// How long the ranks of a group may take to reach their first operation.
inline constexpr double kNcclConnectLimitSeconds = 300;

class NcclTransport {
 public:
  // Called in every wait, at least every 50 ms: an error ends the wait and is returned.
  using Watch = absl::FunctionRef<absl::Status()>;

  // The bytes of a new ncclUniqueId; FailedPrecondition when NCCL is not on this machine. NCCL opens a socket for the
  // id and starts a thread that listens until the ranks have met there.
  static absl::StatusOr<std::string> CreateId();

  // `place` names the rank in errors: "group data, rank 1 of 4". The destructor, Abort and Finish wait at most
  // `abort_limit_seconds` for NCCL to release the communicator.
  NcclTransport(std::string id, int rank, int size, std::string place, double abort_limit_seconds);
  ~NcclTransport();  // aborts unless Finish or Abort was called
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  // Meets the other ranks; returns at once if that has been done. DeadlineExceeded when they do not arrive within
  // kNcclConnectLimitSeconds.
  absl::Status Connect(const Clock& clock, Watch watch);

  // Runs `enqueue`, which calls the functions below, and returns when everything is on its stream.
  absl::Status Group(std::string_view op, absl::FunctionRef<absl::Status()> enqueue, Watch watch);

  // To be called within Group. Sizes are in bytes.
  absl::Status AllGather(const void* part, void* whole, int64_t part_bytes, cudaStream_t stream);
  absl::Status Broadcast(const void* from, void* to, int64_t bytes, int root, cudaStream_t stream);
  absl::Status Send(const void* from, int64_t bytes, int peer, cudaStream_t stream);
  absl::Status Receive(void* to, int64_t bytes, int peer, cudaStream_t stream);

  // NCCL's asynchronous failure, if there is one.
  absl::Status CheckAsync(std::string_view op) { return Settled(op).status(); }

  // Ends kernels in progress and releases everything; where that takes longer than the limit, it returns and the abort
  // continues in the background. No other function may be called afterwards.
  void Abort();
  // Ends the communicator in an orderly way, which needs the other ranks. Where they do not finish within
  // `limit_seconds`, aborts. Returns after that limit and the abort's at the latest; where a call to NCCL takes longer,
  // it and what follows it continue in the background. No other function may be called afterwards.
  void Finish(double limit_seconds);

 private:
  // The communicator's asynchronous state: true when nothing is in progress.
  absl::StatusOr<bool> Settled(std::string_view op);
  absl::Status Check(ncclResult_t result, std::string_view op) const;
  absl::Status Error(ncclResult_t result, std::string_view op) const;

  const std::string id_, place_;
  const int rank_, size_;
  const double abort_limit_seconds_;
  ncclComm_t comm_ = nullptr;
  bool connected_ = false;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NCCL_TRANSPORT_H_
