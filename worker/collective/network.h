// Which network interface the collectives' libraries may use.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_NETWORK_H_
#define ZEROFLEET_WORKER_COLLECTIVE_NETWORK_H_

#include <string>

#include "absl/status/status.h"

namespace zerofleet::collective {

// Holds UCX and NCCL to the network interface `name` ("eth0", "lo") and shared memory: nothing of theirs listens on
// another one. They are told through their own variables, UCX_NET_DEVICES and NCCL_SOCKET_IFNAME, in the environment of
// this process; so it must be called before the first endpoint is made and before other threads run. InvalidArgument,
// with the names there are, for an interface this machine does not have.
absl::Status UseNetworkInterface(const std::string& name);

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NETWORK_H_
