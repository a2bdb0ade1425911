// The network interface that the collectives' libraries may use.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_NETWORK_H_
#define ZEROFLEET_WORKER_COLLECTIVE_NETWORK_H_

#include <string>

#include "absl/status/status.h"

namespace zerofleet::collective {

// Restricts UCX and NCCL to the network interface `name` ("eth0", "lo") and shared memory: they listen on no other
// interface. It sets UCX_NET_DEVICES and NCCL_SOCKET_IFNAME in this process's environment, so it must be called before
// the first endpoint is created and before other threads run. InvalidArgument, listing this machine's interfaces, where
// `name` is none of them.
absl::Status UseNetworkInterface(const std::string& name);

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NETWORK_H_
