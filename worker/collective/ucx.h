// Collectives between processes over UCX (ucx_transport.h). Buffers are in host memory. Reductions are those of
// ordered_reduce.h, gathers those of routed_gather.h. The scratch memory, at most 4 MiB, is allocated once and does not
// depend on the messages' size (constant-size buffers, ZeRO §6.2).
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
