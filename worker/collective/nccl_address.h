// The address of a worker whose memory is on a GPU, as sent over the wire: what NCCL needs, which GPU it is, and where
// to reach the worker when NCCL cannot be used.
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
  std::string nccl_id;       // ncclUniqueId, kNcclIdBytes opaque bytes; empty where NCCL is not available
  std::string device_id;     // Device::unique_id
  std::string host_address;  // of the endpoint that would carry staged collectives; empty if there is none

  bool operator==(const NcclAddress&) const = default;
};

// Sealed (sealed.h) with "ZFNCC01\n": nccl_id, device_id and host_address, each preceded by its length (u32).
std::string WrapNcclAddress(const NcclAddress& address);

// InvalidArgument, saying why, when `wrapped` was not made by WrapNcclAddress.
absl::StatusOr<NcclAddress> UnwrapNcclAddress(std::string_view wrapped);

// The same for all ranks' addresses, by rank; the error names the rank.
absl::StatusOr<std::vector<NcclAddress>> UnwrapNcclAddresses(std::span<const std::string> wrapped);

struct SharedDevice {
  int first, second;  // ranks
  std::string device_id;
};

// The lowest two ranks that are on the same GPU, which NCCL refuses. Every rank finds the same two.
std::optional<SharedDevice> FindSharedDevice(std::span<const NcclAddress> addresses);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NCCL_ADDRESS_H_
