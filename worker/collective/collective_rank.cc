// One rank as a process of its own, for process_test and tests/integration/teams_across_nodes.py: it writes its address
// to stdout as a line of hexadecimal, reads all ranks' addresses from stdin the same way, runs, and exits with 0 when
// every result was right.
//
//   collective_rank SIZE RANK GENERATION SCENARIO [TEAM [NODE,NODE,...]]
//
//   sums     all-reduces of several lengths, then leaves at once
//   streams  all-reduces until a rank is killed and a line on stdin says so; writes "running" after the first, and
//            "failed" after the last
//   trickles as streams, with small messages
//   hangs    takes no part, until it is killed
//   counts   one operation for each line on stdin, compared with the in-process backend; before the first and after
//            each it writes the bytes sent, and those of them that left the node
//
// With the prefix "shared_memory:" in the scenario the ranks read each other's memory; without it they use UCX.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/clock.h"
#include "worker/collective/in_process.h"
#include "worker/collective/ucx.h"
#include "worker/collective/watchdog_testing.h"

namespace zerofleet::collective {
namespace {

std::string ReadLine() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

int Fail(const std::string& what) {
  std::cerr << "collective_rank: " << what << "\n";
  return 1;
}

int Sums(Communicator& communicator) {
  const int size = communicator.size();
  const int sum_of_ranks = size * (size - 1) / 2;
  for (int64_t count : {1, 1000, 100'000, 3'000'001}) {
    std::vector<float> data(count);
    for (int64_t i = 0; i < count; i++) data[i] = static_cast<float>(communicator.rank() + i % 100);
    const absl::Status status = communicator.AllReduce({data.data(), device::DType::kF32}, count, "sums").Wait();
    if (!status.ok()) return Fail(status.ToString());
    for (int64_t i = 0; i < count; i++) {
      const float expected = static_cast<float>(sum_of_ranks + size * (i % 100));
      if (data[i] != expected) return Fail("a sum is wrong");
    }
  }
  return 0;
}

// Runs all-reduces of `count` elements until one fails. The error must be Unavailable, whether the transport noticed
// the dead rank or the abort came first, and must come soon after the abort.
int Streams(Communicator& communicator, int64_t count) {
  std::atomic<double> aborted_at = 0;
  std::thread listener([&] {
    ReadLine();
    aborted_at = Clock::Real().MonotonicSeconds();
    communicator.Abort(absl::UnavailableError("a rank is gone"));
  });
  std::vector<float> data(count);
  absl::Status status;
  for (int i = 0; status.ok(); i++) {
    status = communicator.AllReduce({data.data(), device::DType::kF32}, count, "streams").Wait();
    if (i == 0) std::cout << "running" << std::endl;
  }
  const double failed_at = Clock::Real().MonotonicSeconds();
  std::cout << "failed" << std::endl;
  listener.join();
  if (!absl::IsUnavailable(status)) return Fail(status.ToString());
  if (failed_at - aborted_at > 10) return Fail("the abort took too long");  // a limit that holds on a busy machine too
  return 0;
}

constexpr int64_t kCounted = 3'000'001;  // elements, in several chunks

std::vector<device::BF16> ValuesOf(int rank) {
  std::vector<device::BF16> values(kCounted);
  for (int64_t i = 0; i < kCounted; i++)
    values[i] = device::ToBF16(1.0f / static_cast<float>(3 + i % 1000 * (rank + 1)));
  return values;
}

// The result of a reduce-scatter and the gather after it, computed on threads of this process.
std::vector<device::BF16> SumInProcess(const CollectiveGroup& group) {
  std::vector<device::BF16> sum(kCounted);
  auto communicators = CreateInProcessGroup(group.name, group.size(), group.team);
  std::vector<std::vector<device::BF16>> values;
  std::vector<Communicator::Pending> pending;
  for (int rank = 0; rank < group.size(); rank++) {
    values.push_back(ValuesOf(rank));
    device::BF16* const mine = &sum[ShardRange(kCounted, group.size(), rank).begin];
    pending.push_back(communicators[rank]->ReduceScatter({values.back().data(), device::DType::kBF16},
                                                         {mine, device::DType::kBF16}, kCounted, "counts"));
  }
  for (const auto& one : pending) ZF_CHECK(one.Wait().ok());
  return sum;
}

int Counts(Communicator& communicator, const CollectiveGroup& group) {
  const std::vector<device::BF16> expected = SumInProcess(group);
  const auto write_totals = [&] {
    Traffic all;
    for (const auto& [operation, totals] : communicator.totals()) {
      all.sent += totals.bytes;
      all.to_other_nodes += totals.to_other_nodes;
    }
    std::cout << all.sent << " " << all.to_other_nodes << std::endl;
    ReadLine();
  };
  std::vector<device::BF16> data = ValuesOf(communicator.rank());
  std::vector<char> greetings(group.size());
  absl::Status status = communicator.AllGatherBytes(nullptr, greetings.data(), 1, "connect").Wait();
  write_totals();
  device::BF16* const mine = &data[ShardRange(kCounted, group.size(), group.rank).begin];
  status.Update(
      communicator.ReduceScatter({data.data(), device::DType::kBF16}, {mine, device::DType::kBF16}, kCounted, "counts")
          .Wait());
  write_totals();
  status.Update(communicator.AllGather({}, {data.data(), device::DType::kBF16}, kCounted, "counts").Wait());
  write_totals();
  if (!status.ok()) return Fail(status.ToString());
  return std::memcmp(data.data(), expected.data(), kCounted * sizeof(device::BF16)) == 0 ? 0 : Fail("a sum is wrong");
}

int Main(int argc, char** argv) {
  if (argc < 5 || argc > 7) return Fail("needs SIZE RANK GENERATION SCENARIO [TEAM [NODE,NODE,...]]");
  const int size = std::atoi(argv[1]), rank = std::atoi(argv[2]);
  // A prefix of the scenario says what ranks of one machine use instead of UCX.
  std::string scenario = argv[4];
  constexpr absl::string_view kSharedMemory = "shared_memory:";
  const bool shares_memory = absl::StartsWith(scenario, kSharedMemory);
  if (shares_memory) scenario.erase(0, kSharedMemory.size());
  const Watchdog watchdog([&] { return absl::StrCat("collective_rank ", rank, " of ", size, ", ", scenario); });
  auto endpoint = UcxEndpoint::Create({"data"}, shares_memory ? WithinNode::kSharedMemory : WithinNode::kUcx);
  if (!endpoint.ok()) return Fail(endpoint.status().ToString());
  std::cout << absl::BytesToHexString((*endpoint)->address()) << std::endl;
  CollectiveGroup group = {.name = "data", .rank = rank, .generation = std::strtoull(argv[3], nullptr, 10)};
  for (int peer = 0; peer < size; peer++) group.addresses.push_back(absl::HexStringToBytes(ReadLine()));
  if (argc > 5) group.team = std::atoi(argv[5]);
  if (argc > 6) {
    for (const absl::string_view node : absl::StrSplit(argv[6], ',')) {
      group.nodes.push_back(std::atoi(std::string(node).c_str()));
    }
  }
  auto communicator = (*endpoint)->Join(group);
  if (!communicator.ok()) return Fail(communicator.status().ToString());
  if ((*communicator)->backend() != (shares_memory ? "shared_memory" : "ucx")) return Fail("joined another way");
  std::cout << "joined" << std::endl;
  if (scenario == "sums") return Sums(**communicator);
  if (scenario == "streams") return Streams(**communicator, 3'000'000);
  if (scenario == "trickles") return Streams(**communicator, 10);
  if (scenario == "counts") return Counts(**communicator, group);
  pause();
  return 1;
}

}  // namespace
}  // namespace zerofleet::collective

int main(int argc, char** argv) { return zerofleet::collective::Main(argc, argv); }
