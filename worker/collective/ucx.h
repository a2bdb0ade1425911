// Collectives between processes over UCX (ucx_transport.h). Buffers are in host memory. Reductions are those of
// ordered_reduce.h, gathers those of routed_gather.h. The scratch memory, at most 4 MiB, is allocated once and does not
// depend on the messages' size (constant-size buffers, ZeRO §6.2).
#ifndef ZEROFLEET_WORKER_COLLECTIVE_UCX_H_
#define ZEROFLEET_WORKER_COLLECTIVE_UCX_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/collective/endpoint.h"
#include "worker/collective/ucx_transport.h"

namespace zerofleet::collective {

class UcxEndpoint : public CollectiveEndpoint {
 public:
  // For groups of these names, each with a UCX worker of its own.
  static absl::StatusOr<std::unique_ptr<UcxEndpoint>> Create(const std::vector<std::string>& groups = {"data"});

  std::string backend() const override { return "ucx"; }
  std::string address() const override { return address_; }
  absl::StatusOr<std::unique_ptr<Communicator>> Join(const CollectiveGroup& group) override;

 private:
  using Transports = std::map<std::string, std::unique_ptr<UcxTransport>>;
  explicit UcxEndpoint(Transports transports);

  Transports transports_;  // by group's name; null once joined
  const std::string address_;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_UCX_H_
