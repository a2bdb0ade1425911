// Ranks are forked children that meet in a shared mapping, or processes that meet through a rendezvous; they
// exchange their measurements by collectives.
#include "bench/collective_benches.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/status.h"
#include "services/session/rendezvous.h"
#include "worker/collective/factory.h"
#include "worker/device/device.h"

namespace zerofleet::bench {
namespace {

constexpr int kMaxRanks = 64;
constexpr int kMaxResults = 64;
constexpr int kMaxAddressBytes = 8192;
constexpr const char* kOneTeamGroup = "one team";
constexpr const char* kTeamsGroup = "teams";

// The results, the same on every rank.
struct Figures {
  char backend[32];
  double seconds[kMaxResults];  // by case: the slowest rank's time in the best round
  double memory_bytes_per_second;
};

// Lies in memory that the ranks of one machine share; initially zero.
struct Board {
  std::atomic<int> arrived, failed;
  int address_bytes[kMaxRanks];
  char addresses[kMaxRanks][kMaxAddressBytes];
  Figures figures;  // written by rank 0

  // Waits until all ranks have written their addresses. Returns false when a rank has failed.
  bool Meet(int ranks) {
    arrived.fetch_add(1);
    while (arrived.load() < ranks && failed.load() == 0) absl::SleepFor(absl::Microseconds(50));
    return failed.load() == 0;
  }
};

struct Case {
  collective::Operation operation;
  device::DType dtype;
  int64_t bytes;
  bool teams;  // whether teams are measured, in two levels
};

// Two communicators of the same ranks.
struct Communicators {
  std::unique_ptr<collective::Communicator> one_team, teams;  // `teams` is null if options.team is 0
};

std::vector<Case> Cases(const CollectiveBenchOptions& options) {
  std::vector<Case> cases;
  for (int64_t bytes : options.sizes_bytes) {
    for (collective::Operation operation : {collective::Operation::kAllGather, collective::Operation::kReduceScatter,
                                            collective::Operation::kAllReduce}) {
      for (device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
        if (operation == collective::Operation::kAllGather && dtype == device::DType::kBF16)
          continue;  // a gather moves the same bytes in every type
        cases.push_back({operation, dtype, bytes, false});
        if (options.team > 0) cases.push_back({operation, dtype, bytes, true});
      }
    }
  }
  return cases;
}

// Gathers one number from every rank, by rank. Also a barrier: no rank continues before all have arrived.
absl::StatusOr<std::vector<double>> GatherFromRanks(collective::Communicator& communicator, double mine) {
  std::vector<double> all(communicator.size());
  ZF_RETURN_IF_ERROR(communicator.AllGatherBytes(&mine, all.data(), sizeof mine, "bench").Wait());
  return all;
}

// The memory bandwidth while all ranks measure at once, summed over ranks; each rank's best of a few rounds counts.
absl::StatusOr<double> MeasureMemory(collective::Communicator& communicator) {
  const int64_t count = 16 << 20;
  const std::unique_ptr<float[]> a(new float[count]), b(new float[count]), c(new float[count]);
  std::fill_n(a.get(), count, 0.0f);
  std::fill_n(b.get(), count, 1.0f);
  std::fill_n(c.get(), count, 2.0f);
  double best = 0;
  for (int round = 0; round < 5; round++) {
    ZF_RETURN_IF_ERROR(GatherFromRanks(communicator, 0).status());
    const double start = Clock::Real().MonotonicSeconds();
    for (int64_t i = 0; i < count; i++) a[i] = b[i] + c[i];
    best = std::max(best, 12.0 * count / (Clock::Real().MonotonicSeconds() - start));
  }
  ZF_ASSIGN_OR_RETURN(const std::vector<double> ranks, GatherFromRanks(communicator, best));
  return std::accumulate(ranks.begin(), ranks.end(), 0.0);
}

absl::StatusOr<double> TimeCase(collective::Communicator& communicator, const Case& one, float* full, float* shard) {
  const int64_t count = one.bytes / device::DTypeBytes(one.dtype);
  const double start = Clock::Real().MonotonicSeconds();
  collective::Communicator::Pending pending;
  switch (one.operation) {
    case collective::Operation::kAllGather:
      pending = communicator.AllGather({shard, one.dtype}, {full, one.dtype}, count, "bench");
      break;
    case collective::Operation::kReduceScatter:
      pending = communicator.ReduceScatter({full, one.dtype}, {shard, one.dtype}, count, "bench");
      break;
    default: pending = communicator.AllReduce({full, one.dtype}, count, "bench");
  }
  ZF_RETURN_IF_ERROR(pending.Wait());
  return Clock::Real().MonotonicSeconds() - start;
}

// One rank's part of the whole bench.
absl::Status Measure(const Communicators& communicators, const CollectiveBenchOptions& options, Figures& figures) {
  collective::Communicator& communicator = *communicators.one_team;
  const std::vector<Case> cases = Cases(options);
  ZF_ASSIGN_OR_RETURN(figures.memory_bytes_per_second, MeasureMemory(communicator));
  const int64_t largest = *std::max_element(options.sizes_bytes.begin(), options.sizes_bytes.end()) / 4;
  std::vector<float> full(largest, 1.0f), shard(largest / communicator.size() + 1, 1.0f);
  for (size_t i = 0; i < cases.size(); i++) {
    double best = 0;
    for (int round = -1; round < options.rounds; round++) {  // the first round warms up
      ZF_RETURN_IF_ERROR(GatherFromRanks(communicator, 0).status());
      collective::Communicator& measured = cases[i].teams ? *communicators.teams : communicator;
      ZF_ASSIGN_OR_RETURN(const double mine, TimeCase(measured, cases[i], full.data(), shard.data()));
      ZF_ASSIGN_OR_RETURN(const std::vector<double> ranks, GatherFromRanks(communicator, mine));
      const double slowest = *std::max_element(ranks.begin(), ranks.end());
      if (round >= 0 && (best == 0 || slowest < best)) best = slowest;
    }
    figures.seconds[i] = best;
  }
  absl::SNPrintF(figures.backend, sizeof figures.backend, "%s", communicator.backend());
  return absl::OkStatus();
}

std::vector<CollectiveRate> Rates(const Figures& figures, const CollectiveBenchOptions& options, int ranks) {
  std::vector<CollectiveRate> rates;
  const std::vector<Case> cases = Cases(options);
  for (size_t i = 0; i < cases.size(); i++) {
    const double seconds = figures.seconds[i];
    const double factor = (ranks - 1.0) / ranks * (cases[i].operation == collective::Operation::kAllReduce ? 2 : 1);
    rates.push_back({figures.backend, cases[i].operation, cases[i].dtype, ranks, cases[i].teams ? options.team : ranks,
                     cases[i].bytes, seconds, static_cast<double>(cases[i].bytes) / seconds * factor,
                     figures.memory_bytes_per_second});
  }
  return rates;
}

absl::StatusOr<std::unique_ptr<collective::CollectiveEndpoint>> CreateEndpoint(const CollectiveBenchOptions& options,
                                                                               device::Device& device) {
  std::vector<std::string> groups = {kOneTeamGroup};
  if (options.team > 0) groups.push_back(kTeamsGroup);
  return collective::CreateCollectiveEndpoint(options.backend, device, groups);
}

absl::StatusOr<Communicators> JoinGroups(collective::CollectiveEndpoint& endpoint,
                                         const CollectiveBenchOptions& options, int rank,
                                         const std::vector<std::string>& addresses) {
  Communicators communicators;
  collective::CollectiveGroup group = {.name = kOneTeamGroup, .rank = rank, .addresses = addresses};
  ZF_ASSIGN_OR_RETURN(communicators.one_team, endpoint.Join(group));
  if (options.team == 0) return communicators;
  group.name = kTeamsGroup;
  group.team = options.team;
  for (int peer = 0; peer < group.size(); peer++) group.nodes.push_back(peer / options.team);
  ZF_ASSIGN_OR_RETURN(communicators.teams, endpoint.Join(group));
  return communicators;
}

absl::StatusOr<Communicators> JoinOnBoard(Board& board, const CollectiveBenchOptions& options, device::Device& device,
                                          int rank) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<collective::CollectiveEndpoint> endpoint, CreateEndpoint(options, device));
  const std::string address = endpoint->address();
  if (address.size() > kMaxAddressBytes) return absl::InternalError("collective address too long");
  std::memcpy(board.addresses[rank], address.data(), address.size());
  board.address_bytes[rank] = static_cast<int>(address.size());
  if (!board.Meet(options.ranks)) return absl::AbortedError("another rank failed");
  std::vector<std::string> addresses;
  for (int peer = 0; peer < options.ranks; peer++) {
    addresses.emplace_back(board.addresses[peer], board.address_bytes[peer]);
  }
  return JoinGroups(*endpoint, options, rank, addresses);
}

absl::Status RunRank(Board& board, const CollectiveBenchOptions& options, int rank) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device, device::CreateDevice({.kind = "cpu"}));
  ZF_ASSIGN_OR_RETURN(const Communicators communicators, JoinOnBoard(board, options, *device, rank));
  Figures figures = {};
  ZF_RETURN_IF_ERROR(Measure(communicators, options, figures));
  if (rank == 0) board.figures = figures;
  return absl::OkStatus();
}

// Waits for the children. Returns the error of the first that fails, and kills the others, which would wait for it.
absl::Status Collect(std::vector<pid_t> children) {
  absl::Status result;
  for (size_t left = children.size(); left > 0; absl::SleepFor(absl::Milliseconds(5))) {
    for (size_t rank = 0; rank < children.size(); rank++) {
      int status = 0;
      if (children[rank] == 0 || waitpid(children[rank], &status, WNOHANG) != children[rank]) continue;
      children[rank] = 0;
      left--;
      if (status == 0 || !result.ok()) continue;
      result = absl::InternalError(absl::StrCat("collective bench: rank ", rank, " failed"));
      for (const pid_t child : children) {
        if (child != 0) kill(child, SIGKILL);
      }
    }
  }
  return result;
}

absl::Status CheckOptions(const CollectiveBenchOptions& options) {
  if (options.ranks < 1 || options.ranks > kMaxRanks) {
    return absl::InvalidArgumentError(absl::StrCat("collective bench: ranks must be 1 to ", kMaxRanks));
  }
  if (options.sizes_bytes.empty() || Cases(options).size() > kMaxResults) {
    return absl::InvalidArgumentError("collective bench: too many sizes, or none");
  }
  if (options.team < 0) return absl::InvalidArgumentError("collective bench: ranks per team must be >= 0");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<CollectiveRate>> BenchCollectives(const CollectiveBenchOptions& options) {
  ZF_RETURN_IF_ERROR(CheckOptions(options));
  void* mapping = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return absl::ResourceExhaustedError("collective bench: no shared memory");
  Board* board = new (mapping) Board();
  std::vector<pid_t> children;
  const pid_t parent = getpid();
  for (int rank = 0; rank < options.ranks; rank++) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a signal that ends the parent leaves no rank behind
      if (getppid() != parent) _exit(1);
      const absl::Status status = RunRank(*board, options, rank);
      if (!status.ok()) board->failed = 1;
      _exit(status.ok() ? 0 : 1);
    }
    if (child < 0)
      board->failed = 1;
    else
      children.push_back(child);
  }
  const absl::Status status = Collect(children);
  std::vector<CollectiveRate> rates = Rates(board->figures, options, options.ranks);
  munmap(mapping, sizeof(Board));
  if (!status.ok()) return status;
  return rates;
}

absl::StatusOr<std::vector<CollectiveRate>> BenchCollectivesAcrossHosts(const CollectiveBenchOptions& options,
                                                                        const std::string& meeting_place,
                                                                        const std::string& host,
                                                                        const std::function<bool()>& cancelled) {
  ZF_RETURN_IF_ERROR(CheckOptions(options));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device, device::CreateDevice({.kind = "cpu"}));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<collective::CollectiveEndpoint> endpoint, CreateEndpoint(options, *device));
  ZF_ASSIGN_OR_RETURN(
      const std::unique_ptr<services::RendezvousClient> group,
      services::RendezvousClient::Join(
          {.server = meeting_place, .host = host, .transport_address = endpoint->address(), .cancelled = cancelled}));
  const int ranks = static_cast<int>(group->transport_addresses().size());
  ZF_ASSIGN_OR_RETURN(Communicators joined,
                      JoinGroups(*endpoint, options, group->rank(), group->transport_addresses()));
  const auto communicators = std::make_shared<const Communicators>(std::move(joined));
  group->OnLost([communicators](const absl::Status& reason) {
    for (const auto* each : {&communicators->one_team, &communicators->teams}) {
      if (*each != nullptr) (*each)->Abort(reason);
    }
  });
  Figures figures = {};
  ZF_RETURN_IF_ERROR(Measure(*communicators, options, figures));
  ZF_RETURN_IF_ERROR(group->Done());
  return Rates(figures, options, ranks);
}

}  // namespace zerofleet::bench
