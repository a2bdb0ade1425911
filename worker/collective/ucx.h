// Collectives between processes over UCX (ucx_transport.h). Buffers are in host memory.
//
// all_gather      every rank sends its part to every peer, which receives it in place: n-1 messages per rank.
// reduce_scatter  rank r sends part j to rank j, in chunks; rank j sums the chunks of all ranks in rank order.
// all_reduce      reduce_scatter, then all_gather, in place.
// broadcast       a binomial tree: ceil(log2 n) rounds.
// The scratch memory is allocated once and does not depend on the messages' size (constant-size buffers, ZeRO §6.2).
#ifndef ZEROFLEET_WORKER_COLLECTIVE_UCX_H_
#define ZEROFLEET_WORKER_COLLECTIVE_UCX_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/collective/endpoint.h"
#include "worker/collective/ucx_transport.h"

namespace zerofleet {

class UcxEndpoint : public CollectiveEndpoint {
 public:
  static absl::StatusOr<std::unique_ptr<UcxEndpoint>> Create();

  std::string backend() const override { return "ucx"; }
  std::string address() const override { return address_; }
  absl::StatusOr<std::unique_ptr<Communicator>> Join(const CollectiveGroup& group) override;

 private:
  explicit UcxEndpoint(std::unique_ptr<UcxTransport> transport);

  std::unique_ptr<UcxTransport> transport_;
  const std::string address_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_COLLECTIVE_UCX_H_
