// Ranks are forked children that meet in a shared mapping: addresses go in, times come out.
#include "bench/collective_benches.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/status.h"
#include "worker/collective/factory.h"
#include "worker/device/device.h"

namespace zerofleet {
namespace {

constexpr int kMaxRanks = 64;
constexpr int kMaxResults = 64;
constexpr int kMaxAddressBytes = 8192;

// Lives in memory all ranks share; zero at first.
struct Board {
  std::atomic<int> arrived, failed;
  int address_bytes[kMaxRanks];
  char addresses[kMaxRanks][kMaxAddressBytes];
  double seconds[kMaxRanks][kMaxResults];  // of the round in progress, then the best
  double memory_bytes_per_second[kMaxRanks];

  // Returns false when a rank has failed. Outside anything that is measured, so it may sleep.
  bool Meet(int ranks) {
    const int target = (arrived.fetch_add(1) / ranks + 1) * ranks;
    while (arrived.load() < target && failed.load() == 0) absl::SleepFor(absl::Microseconds(50));
    return failed.load() == 0;
  }
};

struct Case {
  Operation operation;
  DType dtype;
  int64_t bytes;
};

std::vector<Case> Cases(const CollectiveBenchOptions& options) {
  std::vector<Case> cases;
  for (int64_t bytes : options.sizes_bytes) {
    for (Operation operation : {Operation::kAllGather, Operation::kReduceScatter, Operation::kAllReduce}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        if (operation == Operation::kAllGather && dtype == DType::kBF16) continue;  // the bytes are the same
        cases.push_back({operation, dtype, bytes});
      }
    }
  }
  return cases;
}

// What memory gives when every rank runs this at once; the best of a few rounds.
double MeasureMemory(Board& board, int ranks) {
  const int64_t count = 16 << 20;
  const std::unique_ptr<float[]> a(new float[count]), b(new float[count]), c(new float[count]);
  std::fill_n(a.get(), count, 0.0f);
  std::fill_n(b.get(), count, 1.0f);
  std::fill_n(c.get(), count, 2.0f);
  double best = 0;
  for (int round = 0; round < 5 && board.Meet(ranks); round++) {
    const double start = Clock::Real().MonotonicSeconds();
    for (int64_t i = 0; i < count; i++) a[i] = b[i] + c[i];
    best = std::max(best, 12.0 * count / (Clock::Real().MonotonicSeconds() - start));
  }
  return best;
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinOnBoard(Board& board, const CollectiveBenchOptions& options,
                                                          Device& device, int rank) {
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<CollectiveEndpoint> endpoint, CreateCollectiveEndpoint(options.backend, device));
  const std::string address = endpoint->address();
  if (address.size() > kMaxAddressBytes) return absl::InternalError("collective address too long");
  std::memcpy(board.addresses[rank], address.data(), address.size());
  board.address_bytes[rank] = static_cast<int>(address.size());
  if (!board.Meet(options.ranks)) return absl::AbortedError("another rank failed");
  std::vector<std::string> addresses;
  for (int peer = 0; peer < options.ranks; peer++) {
    addresses.emplace_back(board.addresses[peer], board.address_bytes[peer]);
  }
  return endpoint->Join("data", rank, addresses, 1);
}

absl::StatusOr<double> TimeCase(Communicator& communicator, const Case& one, float* full, float* shard) {
  const int64_t count = one.bytes / DTypeBytes(one.dtype);
  const double start = Clock::Real().MonotonicSeconds();
  Communicator::Pending pending;
  switch (one.operation) {
    case Operation::kAllGather: pending = communicator.AllGather(shard, full, count, one.dtype, "bench"); break;
    case Operation::kReduceScatter:
      pending = communicator.ReduceScatter(full, one.dtype, shard, one.dtype, count, "bench");
      break;
    default: pending = communicator.AllReduce(full, count, one.dtype, "bench");
  }
  ZF_RETURN_IF_ERROR(pending.Wait());
  return Clock::Real().MonotonicSeconds() - start;
}

absl::Status RunRank(Board& board, const CollectiveBenchOptions& options, int rank) {
  const std::vector<Case> cases = Cases(options);
  board.memory_bytes_per_second[rank] = MeasureMemory(board, options.ranks);
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, CreateDevice({.kind = "cpu"}));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator, JoinOnBoard(board, options, *device, rank));
  const int64_t largest = *std::max_element(options.sizes_bytes.begin(), options.sizes_bytes.end()) / 4;
  std::vector<float> full(largest, 1.0f), shard(largest / options.ranks + 1, 1.0f);
  for (size_t i = 0; i < cases.size(); i++) {
    double best = 0;
    for (int round = -1; round < options.rounds; round++) {  // the first warms up
      if (!board.Meet(options.ranks)) return absl::AbortedError("another rank failed");
      ZF_ASSIGN_OR_RETURN(board.seconds[rank][i], TimeCase(*communicator, cases[i], full.data(), shard.data()));
      if (!board.Meet(options.ranks)) return absl::AbortedError("another rank failed");
      double slowest = 0;
      for (int peer = 0; peer < options.ranks; peer++) slowest = std::max(slowest, board.seconds[peer][i]);
      if (round >= 0 && (best == 0 || slowest < best)) best = slowest;
    }
    if (!board.Meet(options.ranks)) return absl::AbortedError("another rank failed");
    board.seconds[rank][i] = best;
  }
  return absl::OkStatus();
}

// Waits for the children; the lowest rank that failed is the error.
absl::Status Collect(const std::vector<pid_t>& children) {
  absl::Status result;
  for (size_t rank = 0; rank < children.size(); rank++) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    if (status != 0 && result.ok())
      result = absl::InternalError(absl::StrCat("collective bench: rank ", rank, " failed"));
  }
  return result;
}

std::vector<CollectiveRate> Rates(const Board& board, const CollectiveBenchOptions& options) {
  std::vector<CollectiveRate> rates;
  double memory = 0;
  for (int rank = 0; rank < options.ranks; rank++) memory += board.memory_bytes_per_second[rank];
  const std::vector<Case> cases = Cases(options);
  for (size_t i = 0; i < cases.size(); i++) {
    const double seconds = board.seconds[0][i];
    const double factor = (options.ranks - 1.0) / options.ranks * (cases[i].operation == Operation::kAllReduce ? 2 : 1);
    rates.push_back({options.backend == "auto" ? "ucx" : options.backend, cases[i].operation, cases[i].dtype,
                     options.ranks, cases[i].bytes, seconds, static_cast<double>(cases[i].bytes) / seconds * factor,
                     memory});
  }
  return rates;
}

}  // namespace

absl::StatusOr<std::vector<CollectiveRate>> BenchCollectives(const CollectiveBenchOptions& options) {
  if (options.ranks < 1 || options.ranks > kMaxRanks) {
    return absl::InvalidArgumentError(absl::StrCat("collective bench: ranks must be 1 to ", kMaxRanks));
  }
  if (options.sizes_bytes.empty() || Cases(options).size() > kMaxResults) {
    return absl::InvalidArgumentError("collective bench: between 1 and 12 sizes");
  }
  void* mapping = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return absl::ResourceExhaustedError("collective bench: no shared memory");
  Board* board = new (mapping) Board();
  std::vector<pid_t> children;
  for (int rank = 0; rank < options.ranks; rank++) {
    const pid_t child = fork();
    if (child == 0) {
      const absl::Status status = RunRank(*board, options, rank);
      if (!status.ok()) board->failed = 1;
      _exit(status.ok() ? 0 : 1);
    }
    if (child < 0) board->failed = 1;
    else children.push_back(child);
  }
  const absl::Status status = Collect(children);
  std::vector<CollectiveRate> rates = Rates(*board, options);
  munmap(mapping, sizeof(Board));
  if (!status.ok()) return status;
  return rates;
}

}  // namespace zerofleet
