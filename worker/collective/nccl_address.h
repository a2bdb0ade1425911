// The address of a worker whose memory is a GPU's, as it travels: what NCCL needs, which GPU it is, and where to reach
// the worker when NCCL cannot be used.
//
// No NCCL here: builds without CUDA parse these addresses too, in tests and in the fuzz target.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_NCCL_ADDRESS_H_
#define ZEROFLEET_WORKER_COLLECTIVE_NCCL_ADDRESS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace zerofleet {

inline constexpr int kNcclIdBytes = 128;

struct NcclAddress {
  std::string nccl_id;       // ncclUniqueId, kNcclIdBytes of the library's own making; empty where NCCL is not there
  std::string device_id;     // Device::unique_id
  std::string host_address;  // of the endpoint that would carry staged collectives; empty if there is none

  bool operator==(const NcclAddress&) const = default;
};

// Sealed (sealed.h) with "ZFNCC01\n": nccl_id, device_id and host_address, each after its length (u32).
std::string WrapNcclAddress(const NcclAddress& address);

// InvalidArgument, saying how, when `wrapped` is not what WrapNcclAddress made.
absl::StatusOr<NcclAddress> UnwrapNcclAddress(std::string_view wrapped);

// The same of every rank's, by rank; the error names the rank.
absl::StatusOr<std::vector<NcclAddress>> UnwrapNcclAddresses(std::span<const std::string> wrapped);

struct SharedDevice {
  int first, second;  // ranks
  std::string device_id;
};

// The lowest two ranks that are on one GPU, which NCCL refuses. Every rank finds the same.
std::optional<SharedDevice> FindSharedDevice(std::span<const NcclAddress> addresses);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NCCL_ADDRESS_H_
