// What the collectives' libraries read from the environment: the network interface that they may use, and NCCL's order
// of launches. Both functions must be called before the first endpoint is created and before other threads run.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_NETWORK_H_
#define ZEROFLEET_WORKER_COLLECTIVE_NETWORK_H_

#include <string>

#include "absl/status/status.h"

namespace zerofleet::collective {

// Restricts UCX and NCCL to the network interface `name` ("eth0", "lo") and shared memory: they listen on no other
// interface. Sets UCX_NET_DEVICES and NCCL_SOCKET_IFNAME. InvalidArgument, listing this machine's interfaces, where
// `name` is none of them.
absl::Status UseNetworkInterface(const std::string& name);

// Makes NCCL run the operations of several groups on one GPU in the order in which the host issued them, which is the
// same on every rank. Otherwise two ranks could begin with different groups and wait for each other forever. Sets
// NCCL_LAUNCH_ORDER_IMPLICIT, unless the user has.
void KeepLaunchOrder();

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NETWORK_H_
