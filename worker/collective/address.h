// A worker's address for collectives, as it travels (proto/zerofleet/v1/collective.proto): for each group that it may
// join, where to reach it over UCX, or its NCCL id, or both.
//
// No UCX and no NCCL here: what they are given is checked first, in tests and by the fuzz target too.
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

// As it travels, with a digest.
std::string SealAddress(const v1::CollectiveAddress& address);

// The address in `sealed`; InvalidArgument, saying why, when it is not what SealAddress made, or an NCCL id is not
// kNcclIdBytes long.
absl::StatusOr<v1::CollectiveAddress> OpenAddress(std::string_view sealed);

// What the group's ranks can be reached by, as each rank's address has it, by rank. InvalidArgument, naming group and
// rank, for an address that is malformed or serves no group of that name.
struct GroupAddresses {
  std::vector<v1::CollectiveAddress::Group> ranks;
  std::vector<std::string> device_ids;
};
absl::StatusOr<GroupAddresses> OpenGroupAddresses(const CollectiveGroup& group);

// What Join returns for a group that this process's endpoint was not made for, and for one that it has joined.
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
