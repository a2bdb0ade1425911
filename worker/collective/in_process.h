// Ranks as threads of one process, for tests and single-worker runs: each rank reads its peers' buffers in place.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_IN_PROCESS_H_
#define ZEROFLEET_WORKER_COLLECTIVE_IN_PROCESS_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/collective/communicator.h"
#include "worker/collective/endpoint.h"

namespace zerofleet::collective {

// The communicators of ranks 0, 1, ..., size-1; each may be used and destroyed on a thread of its own. `team` and
// `nodes` are as in CollectiveGroup; bytes are counted as if they went over the routes of the other backends.
std::vector<std::unique_ptr<Communicator>> CreateInProcessGroup(const std::string& group, int size, int team = 0,
                                                                const std::vector<int>& nodes = {});

// The endpoint of a fleet of one: it joins groups of a single rank.
std::unique_ptr<CollectiveEndpoint> CreateInProcessEndpoint();

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_IN_PROCESS_H_
