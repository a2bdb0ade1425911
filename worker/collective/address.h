// A worker's address for collectives, as it is sent (proto/zerofleet/v1/collective.proto): for each group that the
// worker may join, where to reach it over UCX, or its NCCL id, or both.
//
// This file uses neither UCX nor NCCL: what they receive is checked here first, and tests and the fuzz target reach
// that check.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_ADDRESS_H_
#define ZEROFLEET_WORKER_COLLECTIVE_ADDRESS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/endpoint.h"
#include "zerofleet/v1/collective.pb.h"

namespace zerofleet::collective {

inline constexpr int kNcclIdBytes = 128;

// The address as bytes to send, with a digest.
std::string SealAddress(const v1::CollectiveAddress& address);

// The address in `sealed`; InvalidArgument, saying why, when it is not what SealAddress made, or an NCCL id is not
// kNcclIdBytes long.
absl::StatusOr<v1::CollectiveAddress> OpenAddress(std::string_view sealed);

// The entry for the group in each rank's address, and each rank's device; both by rank. InvalidArgument, naming group
// and rank, for an address that is malformed or serves no group of that name.
struct GroupAddresses {
  std::vector<v1::CollectiveAddress::Group> ranks;
  std::vector<std::string> device_ids;
};
absl::StatusOr<GroupAddresses> OpenGroupAddresses(const CollectiveGroup& group);

// What Join returns for a group that this process's endpoint was not made for, and for one that it has joined before.
absl::Status NotServed(const CollectiveGroup& group);
absl::Status JoinedBefore(const CollectiveGroup& group);

struct SharedDevice {
  int first, second;  // ranks
  std::string device_id;
};

// The lowest two ranks that are on the same GPU, which NCCL refuses. Every rank finds the same two.
std::optional<SharedDevice> FindSharedDevice(std::span<const std::string> device_ids);

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_ADDRESS_H_
