// What the folder's tests share, and the backends that the conformance suite (collective_test.cc) runs: each test file
// that can make one adds its row.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_CONFORMANCE_H_
#define ZEROFLEET_WORKER_COLLECTIVE_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/collective/communicator.h"
#include "worker/collective/endpoint.h"

namespace zerofleet {

// By rank.
using Group = std::vector<std::unique_ptr<Communicator>>;

// A group to make: its name, and what Topology needs.
struct GroupShape {
  std::string name = "data";
  int size = 1, team = 0;
  std::vector<int> nodes = {};

  // As its rank `rank` joins it.
  CollectiveGroup At(int rank, const std::vector<std::string>& addresses) const {
    return {.name = name, .rank = rank, .addresses = addresses, .generation = 1, .team = team, .nodes = nodes};
  }
};
using GroupMaker = std::function<Group(const GroupShape& shape)>;

inline std::map<std::string, GroupMaker>& ConformanceBackends() {
  static auto& backends = *new std::map<std::string, GroupMaker>;
  return backends;
}

// By rank, and not shared between threads until all have ended.
inline void OnEveryRank(int size, const std::function<void(int)>& run) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; rank++) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
}

// Joins each endpoint to the group, in rank order.
template <class Endpoints>
Group JoinAll(const GroupShape& shape, const Endpoints& endpoints) {
  std::vector<std::string> addresses;
  for (const auto& endpoint : endpoints) addresses.push_back(endpoint->address());
  Group communicators;
  for (int rank = 0; rank < static_cast<int>(endpoints.size()); rank++) {
    auto communicator = endpoints[rank]->Join(shape.At(rank, addresses));
    EXPECT_TRUE(communicator.ok()) << communicator.status();
    communicators.push_back(*std::move(communicator));
  }
  return communicators;
}

// Destroys every communicator on its own thread, as processes would.
inline void Destroy(Group& group) {
  OnEveryRank(static_cast<int>(group.size()), [&](int rank) { group[rank].reset(); });
}

// Adds one, before main.
struct AddConformanceBackend {
  AddConformanceBackend(const std::string& name, GroupMaker maker) { ConformanceBackends()[name] = std::move(maker); }
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_COLLECTIVE_CONFORMANCE_H_
