// Collectives between GPUs over NCCL (nccl_transport.h). Buffers are in device memory.
//
// all_gather      ncclAllGather; shards of unequal length are broadcast instead, each from its owner, in one NCCL
// group. reduce_scatter  ordered_reduce.h: chunks in grouped sends and receives, summed by a kernel. NCCL's own
// reductions add in the order of its rings and trees and round at every hop; ours have the bits of every other backend
// (docs/decisions/0006). A group of one rank never calls NCCL.
//
// Operations are enqueued on the communicator's own stream behind their inputs' events, one after another without
// waiting for the device; the communicator's thread follows each to its end and watches for an abort and for NCCL's own
// errors.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_NCCL_H_
#define ZEROFLEET_WORKER_COLLECTIVE_NCCL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "worker/collective/endpoint.h"
#include "worker/device/device.h"

namespace zerofleet::collective {

// Device memory that a communicator with several ranks keeps for the chunks of its reductions.
inline constexpr int64_t kNcclScratchBytes = 64 << 20;

// How long to wait for NCCL to abort, or to destroy a communicator.
inline constexpr double kNcclAbortLimitSeconds = 5;
// How long a communicator that was not aborted waits for the other ranks to finish too.
inline constexpr double kNcclFinishLimitSeconds = 5;

struct NcclOptions {
  const Clock* clock = &Clock::Real();
  int64_t scratch_bytes = kNcclScratchBytes;
  double abort_limit_seconds = kNcclAbortLimitSeconds;
  double finish_limit_seconds = kNcclFinishLimitSeconds;
  bool alone = false;  // call NCCL even in a group of one rank; for tests on a machine with one GPU
};

class NcclEndpoint : public CollectiveEndpoint {
 public:
  // `device` is a CUDA device and must outlive the endpoint and its communicators. FailedPrecondition when NCCL is not
  // on this machine.
  //
  // Every endpoint makes a unique id for each of the named groups, since none knows its rank yet; a group uses rank 0's
  // id, which is part of the address. The unused ids cost the other ranks a listening socket and a sleeping thread
  // each, until the process ends. The alternative is that rank 0 publishes its id after ranks are assigned: one more
  // message and one more wait in every join.
  static absl::StatusOr<std::unique_ptr<NcclEndpoint>> Create(device::Device& device, NcclOptions options = {},
                                                              const std::vector<std::string>& groups = {"data"});

  std::string backend() const override { return "nccl"; }
  std::string address() const override { return address_; }
  // FailedPrecondition when two ranks are on one GPU, which NCCL refuses. An id belongs to one group of one endpoint,
  // and an endpoint to one generation, so NCCL itself keeps groups and generations apart. Where communicators share a
  // GPU, NCCL requires that their operations reach it in the same order on every rank: with several groups, a function
  // that posts an operation returns once the operation is on the device's streams, so that the order is the posting
  // thread's.
  absl::StatusOr<std::unique_ptr<Communicator>> Join(const CollectiveGroup& group) override;

 private:
  using Ids = std::map<std::string, std::string>;
  NcclEndpoint(device::Device& device, NcclOptions options, Ids ids);

  device::Device& device_;
  const NcclOptions options_;
  Ids ids_;  // by group name; an id is empty once its group is joined
  const std::string address_;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NCCL_H_
