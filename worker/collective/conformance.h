// What the folder's tests share, and the backends that the conformance suite (collective_test.cc) runs on: each test
// file that can make a backend's groups adds it here.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_CONFORMANCE_H_
#define ZEROFLEET_WORKER_COLLECTIVE_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/collective/communicator.h"
#include "worker/collective/endpoint.h"

namespace zerofleet::collective {

// A group's communicators, by rank.
using Group = std::vector<std::unique_ptr<Communicator>>;

// A group to make: its name, and what Topology needs.
struct GroupShape {
  std::string name = "data";
  int size = 1, team = 0;
  std::vector<int> nodes = {};

  // The group as its rank `rank` joins it.
  CollectiveGroup At(int rank, const std::vector<std::string>& addresses) const {
    return {.name = name, .rank = rank, .addresses = addresses, .generation = 1, .team = team, .nodes = nodes};
  }
};
using GroupMaker = std::function<Group(const GroupShape& shape)>;

inline std::map<std::string, GroupMaker>& ConformanceBackends() {
  static auto& backends = *new std::map<std::string, GroupMaker>;
  return backends;
}

// Calls `run` for every rank, each on its own thread; returns when all have ended.
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

// Destroys each communicator on a thread of its own, as processes would.
inline void Destroy(Group& group) {
  OnEveryRank(static_cast<int>(group.size()), [&](int rank) { group[rank].reset(); });
}

// Four ranks form two pairs of group "data" and two pairs of group "tensor" at once, with one endpoint each. Sums of
// one group must not reach the other, and aborting one must leave the other alone.
inline void ExpectEveryGroupJoined(
    const std::function<std::unique_ptr<CollectiveEndpoint>(int rank, const std::vector<std::string>& groups)>& make) {
  std::vector<std::unique_ptr<CollectiveEndpoint>> endpoints;
  for (int rank = 0; rank < 4; rank++) endpoints.push_back(make(rank, {"data", "tensor"}));
  // Joins `rank` to the pair of `rank` and `other`, in which the lower is rank 0.
  const auto join = [&](int rank, const std::string& name, int other) {
    std::vector<std::string> addresses = {endpoints[rank]->address(), endpoints[other]->address()};
    if (other < rank) std::swap(addresses[0], addresses[1]);
    return endpoints[rank]->Join({.name = name, .rank = rank < other ? 0 : 1, .addresses = addresses, .generation = 1});
  };
  Group data, tensor;
  for (int rank = 0; rank < 4; rank++) {
    data.push_back(join(rank, "data", rank ^ 2).value());
    tensor.push_back(join(rank, "tensor", rank ^ 1).value());
    EXPECT_TRUE(absl::IsFailedPrecondition(join(rank, "data", rank ^ 2).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(join(rank, "pipeline", rank ^ 1).status()));
  }
  constexpr int64_t kCount = 50'000;
  OnEveryRank(4, [&](int rank) {
    std::vector<float> a(kCount, static_cast<float>(rank)), b = a;
    const auto in_data = data[rank]->AllReduce({a.data(), device::DType::kF32}, kCount, "u");
    const auto in_tensor = tensor[rank]->AllReduce({b.data(), device::DType::kF32}, kCount, "u");
    EXPECT_EQ(in_data.Wait(), absl::OkStatus());
    EXPECT_EQ(in_tensor.Wait(), absl::OkStatus());
    EXPECT_EQ(std::count(a.begin(), a.end(), static_cast<float>(rank + (rank ^ 2))), kCount);
    EXPECT_EQ(std::count(b.begin(), b.end(), static_cast<float>(rank + (rank ^ 1))), kCount);
  });
  OnEveryRank(4, [&](int rank) {
    std::vector<float> b(kCount);
    data[rank]->Abort(absl::UnavailableError("a rank is gone"));
    EXPECT_EQ(tensor[rank]->AllReduce({b.data(), device::DType::kF32}, kCount, "u").Wait(), absl::OkStatus());
  });
  Destroy(data);
  Destroy(tensor);
}

// Adds a backend to ConformanceBackends before main.
struct AddConformanceBackend {
  AddConformanceBackend(const std::string& name, GroupMaker maker) { ConformanceBackends()[name] = std::move(maker); }
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_CONFORMANCE_H_
