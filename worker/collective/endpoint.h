// Where a process can be reached for collectives, made before it belongs to a group.
//
// A worker makes its endpoint, sends the address along when it joins, learns every rank's address from the
// coordinator, and turns the endpoint into its group's communicator. A new generation starts with a new endpoint.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_ENDPOINT_H_
#define ZEROFLEET_WORKER_COLLECTIVE_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"

namespace zerofleet {

class CollectiveEndpoint {
 public:
  virtual ~CollectiveEndpoint() = default;

  virtual std::string backend() const = 0;  // as Communicator::backend
  virtual std::string address() const = 0;  // bytes for the peers
  // After Join: why `auto` did not take its first choice, in a few words; empty where it did.
  virtual std::string fallback_reason() const { return ""; }

  // The communicator of `rank` among addresses.size() ranks; once. `addresses` are by rank, this process's own among
  // them. Does not wait for peers: connections are made by the first operation. `generation` is part of every
  // message, so that one of another generation is never taken for one of this. InvalidArgument for addresses that
  // are malformed or not those of this backend, Unavailable for a peer no transport reaches.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Join(std::string group, int rank,
                                                             const std::vector<std::string>& addresses,
                                                             uint64_t generation) = 0;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_COLLECTIVE_ENDPOINT_H_
