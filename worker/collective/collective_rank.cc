// One rank as a process of its own, for process_test: it writes its address to stdout as a line of hexadecimal, reads
// all ranks' addresses from stdin the same way, runs, and ends with 0 when every result was right.
//
//   collective_rank SIZE RANK GENERATION SCENARIO
//
//   sums     all-reduces of several lengths, then leaves at once
//   streams  all-reduces until a rank is killed and a line on stdin says so; writes "running" after the first
//   trickles as streams, with small messages
//   hangs    takes no part, until it is killed
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "worker/collective/ucx.h"
#include "worker/collective/watchdog_testing.h"

namespace zerofleet {
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
    const absl::Status status = communicator.AllReduce(data.data(), count, DType::kF32, "sums").Wait();
    if (!status.ok()) return Fail(status.ToString());
    for (int64_t i = 0; i < count; i++) {
      const float expected = static_cast<float>(sum_of_ranks + size * (i % 100));
      if (data[i] != expected) return Fail("a sum is wrong");
    }
  }
  return 0;
}

// All-reduces of `count` elements until one fails. That is Unavailable whether the transport noticed the dead rank or
// the abort came first, and it comes soon after the abort.
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
    status = communicator.AllReduce(data.data(), count, DType::kF32, "streams").Wait();
    if (i == 0) std::cout << "running" << std::endl;
  }
  const double failed_at = Clock::Real().MonotonicSeconds();
  listener.join();
  if (!absl::IsUnavailable(status)) return Fail(status.ToString());
  if (failed_at - aborted_at > 10) return Fail("the abort took too long");  // on a busy machine, too
  return 0;
}

int Main(int argc, char** argv) {
  if (argc != 5) return Fail("needs SIZE RANK GENERATION SCENARIO");
  const int size = std::atoi(argv[1]), rank = std::atoi(argv[2]);
  const std::string scenario = argv[4];
  const Watchdog watchdog([&] { return absl::StrCat("collective_rank ", rank, " of ", size, ", ", scenario); });
  auto endpoint = UcxEndpoint::Create();
  if (!endpoint.ok()) return Fail(endpoint.status().ToString());
  std::cout << absl::BytesToHexString((*endpoint)->address()) << std::endl;
  std::vector<std::string> addresses;
  for (int peer = 0; peer < size; peer++) addresses.push_back(absl::HexStringToBytes(ReadLine()));
  auto communicator = (*endpoint)->Join(
      {.name = "data", .rank = rank, .addresses = addresses, .generation = std::strtoull(argv[3], nullptr, 10)});
  if (!communicator.ok()) return Fail(communicator.status().ToString());
  std::cout << "joined" << std::endl;
  if (scenario == "sums") return Sums(**communicator);
  if (scenario == "streams") return Streams(**communicator, 3'000'000);
  if (scenario == "trickles") return Streams(**communicator, 10);
  pause();
  return 1;
}

}  // namespace
}  // namespace zerofleet

int main(int argc, char** argv) { return zerofleet::Main(argc, argv); }
