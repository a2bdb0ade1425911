// What the folder's tests share, and the backends that the conformance suite (collective_test.cc) runs: each test file
// that can make one adds its row.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_CONFORMANCE_H_
#define ZEROFLEET_WORKER_COLLECTIVE_CONFORMANCE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/collective/communicator.h"

namespace zerofleet {

// By rank.
using Group = std::vector<std::unique_ptr<Communicator>>;
using GroupMaker = std::function<Group(const std::string& group, int size)>;

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

// Adds one, before main.
struct AddConformanceBackend {
  AddConformanceBackend(const std::string& name, GroupMaker maker) { ConformanceBackends()[name] = std::move(maker); }
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_COLLECTIVE_CONFORMANCE_H_
