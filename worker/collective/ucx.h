// Collectives between processes on host memory: over UCX (ucx_transport.h), with the algorithms of ordered_reduce.h and
// routed_gather.h; or, where all ranks of a group share a machine and the endpoint allows it, by reading each other's
// memory (node_group.h) once they have greeted each other over UCX. The scratch memory, at most 4 MiB, is allocated
// once and does not depend on the messages' size (constant-size buffers, ZeRO §6.2).
#ifndef ZEROFLEET_WORKER_COLLECTIVE_UCX_H_
#define ZEROFLEET_WORKER_COLLECTIVE_UCX_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/collective/endpoint.h"
#include "worker/collective/node_segment.h"
#include "worker/collective/ucx_transport.h"

namespace zerofleet::collective {

// What carries the operations of ranks that share a machine.
enum class WithinNode : uint8_t { kUcx, kSharedMemory };

class UcxEndpoint : public CollectiveEndpoint {
 public:
  // Creates the endpoint for groups with these names, each with a UCX worker of its own.
  static absl::StatusOr<std::unique_ptr<UcxEndpoint>> Create(const std::vector<std::string>& groups = {"data"},
                                                             WithinNode within_node = WithinNode::kUcx);

  std::string backend() const override { return "ucx"; }
  std::string address() const override { return address_; }
  std::string fallback_reason() const override { return fallback_reason_; }
  absl::StatusOr<std::unique_ptr<Communicator>> Join(const CollectiveGroup& group) override;

 private:
  struct Place {
    std::unique_ptr<UcxTransport> transport;  // null once joined
    std::unique_ptr<NodeSegment> segment;     // null where memory is not shared
  };
  using Places = std::map<std::string, Place>;
  UcxEndpoint(Places places, std::string refusal);
  static std::string AddressOf(const Places& places);
  // The addresses of the ranks' segments, by rank, if they are to share memory. Otherwise empty, and fallback_reason_
  // may say why.
  std::vector<v1::NodeAddress> SharedBy(const CollectiveGroup& group,
                                        const std::vector<v1::CollectiveAddress::Group>& ranks);

  Places places_;  // by group name
  const std::string address_;
  const std::string refusal_;  // why no memory is shared here; empty where it is shared, or not requested
  std::string fallback_reason_;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_UCX_H_
