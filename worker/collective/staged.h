// Collectives on device memory through host memory: pieces are copied to a pinned buffer, an inner communicator moves
// them among the hosts, and the results are copied back. For ranks that share a GPU, which NCCL refuses, and for
// machines where it cannot run.
//
// The buffer is reserved once and does not depend on the messages' size (constant-size buffers, ZeRO §6.2): a message
// is cut so that every rank's part gives one piece per round. The inner operation of a round is the same operation on
// the pieces, so results have the inner backend's bits, and a rank sends the bytes it would have sent without staging.
// Copies and inner operations take turns; they do not overlap.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_STAGED_H_
#define ZEROFLEET_WORKER_COLLECTIVE_STAGED_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/collective/communicator.h"
#include "worker/collective/endpoint.h"
#include "worker/device/device.h"

namespace zerofleet::collective {

inline constexpr int64_t kStagingBytes = 32 << 20;  // pinned host memory per communicator

// Creates the communicator of `inner`'s group and rank for buffers in the memory of `device`, which must outlive it.
// ResourceExhausted when the host cannot pin `staging_bytes`.
absl::StatusOr<std::unique_ptr<Communicator>> CreateStagedCommunicator(device::Device& device,
                                                                       std::unique_ptr<Communicator> inner,
                                                                       int64_t staging_bytes = kStagingBytes);

// An endpoint with `inner`'s address and backend name, whose communicators are staged ones around `inner`'s.
class StagedEndpoint : public CollectiveEndpoint {
 public:
  // `device` must outlive the endpoint and its communicators.
  StagedEndpoint(device::Device& device, std::unique_ptr<CollectiveEndpoint> inner)
      : device_(device), inner_(std::move(inner)) {}

  std::string backend() const override { return inner_->backend(); }
  std::string address() const override { return inner_->address(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Join(const CollectiveGroup& group) override;

 private:
  device::Device& device_;
  const std::unique_ptr<CollectiveEndpoint> inner_;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_STAGED_H_
