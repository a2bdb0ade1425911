// A UCX worker's address as it travels: UCX itself trusts the bytes it is given and may crash on others, so they are
// wrapped in a magic number, their length and their digest.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_UCX_ADDRESS_H_
#define ZEROFLEET_WORKER_COLLECTIVE_UCX_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace zerofleet {

// "ZFUCX01\n", length (u32), XXH3-64 of the address (u64), the address; little-endian.
std::string WrapUcxAddress(std::string_view address);

// The address within `wrapped`; InvalidArgument, saying how, when it is not what WrapUcxAddress made.
absl::StatusOr<std::string> UnwrapUcxAddress(std::string_view wrapped);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_COLLECTIVE_UCX_ADDRESS_H_
