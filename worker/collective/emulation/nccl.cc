// The functions of NCCL that nccl_transport.cc calls, for ranks that are threads of one process and for host memory:
// for tests of that file and of ../nccl.cc on machines without GPUs. The emulation build links it in place of libnccl.
//
// It behaves as NCCL's non-blocking mode does where that is hardest on the caller. A communicator stays in progress for
// a few polls after all ranks have arrived, and refuses a rank whose current GPU is already another rank's. A group is
// put on its stream a few polls after ncclGroupEnd, and behind everything enqueued until then. Any other call before
// that is an error. On the stream (worker/device/cuda/emulation/streams.h) a group waits for its peers and moves one
// message at a time, from their memory to its own, at whatever moment the scheduler chooses. When a rank aborts, the
// ranks that wait for it fail, as with a closed socket.
#include <nccl.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/collective/emulation/nccl_control.h"
#include "worker/device/cuda/emulation/streams.h"

namespace zerofleet::collective::nccl_emulation {
namespace {

constexpr int kLooksInProgress = 5;

struct Message {
  const void* data;
  size_t bytes;
  bool taken = false;
};

// One half of a transfer: a send, or a receive into `to`. With both set, a copy of the rank's own part.
struct Transfer {
  int peer;
  const void* from;
  void* to;
  size_t bytes;
  bool done = false;
  std::shared_ptr<Message> message = nullptr;  // set for a send

  bool is_send() const { return to == nullptr; }
  bool is_copy() const { return from != nullptr && to != nullptr; }
};

// The ranks that met under one unique id.
struct World {
  absl::Mutex mutex;
  absl::CondVar changed;
  int size ABSL_GUARDED_BY(mutex) = 0, joined ABSL_GUARDED_BY(mutex) = 0, finalized ABSL_GUARDED_BY(mutex) = 0;
  std::set<int> devices ABSL_GUARDED_BY(mutex);
  std::map<int, bool> gone ABSL_GUARDED_BY(mutex);                                                  // by rank
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> mail ABSL_GUARDED_BY(mutex);  // by (from, to)
};

struct Registry {
  absl::Mutex mutex;
  std::map<std::string, std::shared_ptr<World>> worlds ABSL_GUARDED_BY(mutex);
  std::map<int, ncclResult_t> errors ABSL_GUARDED_BY(mutex);
  int version ABSL_GUARDED_BY(mutex) = NCCL_VERSION_CODE;
  ncclResult_t unique_id_result ABSL_GUARDED_BY(mutex) = ncclSuccess;
  std::map<Ending, bool> holds ABSL_GUARDED_BY(mutex);
  uint64_t next_id ABSL_GUARDED_BY(mutex) = 1;
  int live ABSL_GUARDED_BY(mutex) = 0;
};

Registry& TheRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

}  // namespace
}  // namespace zerofleet::collective::nccl_emulation

using namespace zerofleet::collective::nccl_emulation;

namespace zerofleet::collective::nccl_emulation {
namespace {

using device::cuda::emulation::Progress;

enum class Phase { kJoining, kReady, kWorking, kFinalizing };

// A rank of a world. Operations on a stream hold it, so it may outlive its handle. All but the constants are guarded by
// the world's mutex.
struct Rank {
  const std::shared_ptr<World> world;
  const int rank, size;
  Phase phase = Phase::kJoining;
  ncclResult_t result = ncclSuccess;
  bool aborted = false;
  int looks = 0;
  std::vector<Transfer> group = {};  // ended, but not on its stream yet
  cudaStream_t stream = nullptr;
};

}  // namespace
}  // namespace zerofleet::collective::nccl_emulation

struct ncclComm {
  std::shared_ptr<Rank> rank;
};

namespace zerofleet::collective::nccl_emulation {
namespace {

Progress Fail(Rank& rank, ncclResult_t result) {
  if (rank.result == ncclSuccess) rank.result = result;
  return Progress::kDone;
}

// A group's first step: hands the sends to their peers and copies the rank's own part.
void Begin(World& world, int rank, std::vector<Transfer>& transfers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(world.mutex) {
  for (Transfer& transfer : transfers) {
    if (transfer.is_copy()) {
      std::memmove(transfer.to, transfer.from, transfer.bytes);
      transfer.done = true;
    } else if (transfer.is_send()) {
      transfer.message = std::make_shared<Message>(Message{transfer.from, transfer.bytes});
      world.mail[{rank, transfer.peer}].push_back(transfer.message);
    }
  }
}

// Advances one transfer.
Progress Step(Rank& rank, std::vector<Transfer>& transfers, bool& begun) {
  World& world = *rank.world;
  absl::MutexLock lock(&world.mutex);
  if (rank.aborted || rank.result != ncclSuccess) return Progress::kDone;
  if (!begun) {
    begun = true;
    Begin(world, rank.rank, transfers);
    return Progress::kSome;
  }
  bool waits = false;
  std::set<int> behind;  // peers for which an earlier receive is waiting
  for (Transfer& transfer : transfers) {
    if (transfer.done) continue;
    if (transfer.is_send()) {
      transfer.done = transfer.message->taken;
    } else if (auto& box = world.mail[{transfer.peer, rank.rank}]; !box.empty() && !behind.contains(transfer.peer)) {
      const std::shared_ptr<Message> message = box.front();
      box.pop_front();
      if (message->bytes != transfer.bytes) return Fail(rank, ncclInternalError);
      std::memcpy(transfer.to, message->data, message->bytes);
      message->taken = transfer.done = true;
      return Progress::kSome;
    } else {
      behind.insert(transfer.peer);
    }
    if (!transfer.done && world.gone[transfer.peer]) return Fail(rank, ncclRemoteError);
    waits = waits || !transfer.done;
  }
  return waits ? Progress::kBlocked : Progress::kDone;
}

thread_local int group_depth = 0;
thread_local ncclComm* group_comm = nullptr;
thread_local cudaStream_t group_stream = nullptr;
thread_local std::vector<Transfer> group_transfers;

ncclResult_t Launch() {
  ncclComm* comm = std::exchange(group_comm, nullptr);
  std::vector<Transfer> transfers = std::exchange(group_transfers, {});
  if (comm == nullptr) return ncclSuccess;
  Rank& rank = *comm->rank;
  absl::MutexLock lock(&rank.world->mutex);
  if (rank.result != ncclSuccess) return rank.result;
  if (rank.phase != Phase::kReady) return ncclInvalidUsage;
  rank.phase = Phase::kWorking;
  rank.looks = 0;
  rank.group = std::move(transfers);
  rank.stream = group_stream;
  return ncclInProgress;
}

ncclResult_t Add(ncclComm* comm, cudaStream_t stream, const std::vector<Transfer>& transfers) {
  if (comm == nullptr || (group_comm != nullptr && (group_comm != comm || group_stream != stream))) {
    return ncclInvalidArgument;
  }
  group_comm = comm;
  group_stream = stream;
  group_transfers.insert(group_transfers.end(), transfers.begin(), transfers.end());
  return group_depth == 0 ? Launch() : ncclSuccess;
}

// Puts a group on its stream.
void EnqueueGroup(const std::shared_ptr<Rank>& rank, cudaStream_t stream, std::vector<Transfer> transfers) {
  device::cuda::emulation::CountCollective(stream, 1);
  device::cuda::emulation::EnqueueSteps(stream,
                                        [rank, stream, transfers = std::move(transfers), begun = false]() mutable {
                                          const Progress progress = Step(*rank, transfers, begun);
                                          if (progress == Progress::kDone)
                                            device::cuda::emulation::CountCollective(stream, -1);
                                          return progress;
                                        });
}

// Returns once calls of this kind are not held back.
void AwaitRelease(Ending call) {
  Registry& registry = TheRegistry();
  const auto is_free = [&registry, call] {
    registry.mutex.AssertHeld();
    return !registry.holds[call];
  };
  absl::MutexLock lock(&registry.mutex);
  registry.mutex.Await(absl::Condition(&is_free));
}

// Ends the handle: ranks that wait for its rank see that it is gone, and the caller may reuse its memory.
void Release(ncclComm* comm, bool abort) {
  {
    Rank& rank = *comm->rank;
    absl::MutexLock lock(&rank.world->mutex);
    rank.aborted = abort;
    rank.world->gone[rank.rank] = true;
    for (int peer = 0; abort && peer < rank.size; peer++) rank.world->mail[{rank.rank, peer}].clear();
  }
  delete comm;
  device::cuda::emulation::WakeStreams();
  absl::MutexLock lock(&TheRegistry().mutex);
  TheRegistry().live--;
}

}  // namespace

void SetAsyncError(int rank, ncclResult_t error) {
  absl::MutexLock lock(&TheRegistry().mutex);
  TheRegistry().errors[rank] = error;
}

void SetUniqueIdResult(ncclResult_t result) {
  absl::MutexLock lock(&TheRegistry().mutex);
  TheRegistry().unique_id_result = result;
}

void SetVersion(int version) {
  absl::MutexLock lock(&TheRegistry().mutex);
  TheRegistry().version = version;
}

void Hold(Ending call, bool hold) {
  absl::MutexLock lock(&TheRegistry().mutex);
  TheRegistry().holds[call] = hold;
}

int LiveCommunicators() {
  absl::MutexLock lock(&TheRegistry().mutex);
  return TheRegistry().live;
}

}  // namespace zerofleet::collective::nccl_emulation

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  absl::MutexLock lock(&TheRegistry().mutex);
  *version = TheRegistry().version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Registry& registry = TheRegistry();
  absl::MutexLock lock(&registry.mutex);
  if (registry.unique_id_result != ncclSuccess) return registry.unique_id_result;
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, &registry.next_id, sizeof registry.next_id);
  registry.next_id++;
  registry.worlds[std::string(id->internal, sizeof id->internal)] = std::make_shared<World>();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  *comm = nullptr;
  if (config->blocking != 0 || rank < 0 || rank >= size) return ncclInvalidArgument;
  Registry& registry = TheRegistry();
  absl::MutexLock lock(&registry.mutex);
  const auto world = registry.worlds.find(std::string(id.internal, sizeof id.internal));
  if (world == registry.worlds.end()) return ncclInvalidArgument;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return ncclUnhandledCudaError;
  {
    absl::MutexLock world_lock(&world->second->mutex);
    if (!world->second->devices.insert(device).second) return ncclInvalidUsage;
    world->second->size = size;
    world->second->joined++;
  }
  registry.live++;
  *comm = new ncclComm{std::make_shared<Rank>(Rank{.world = world->second, .rank = rank, .size = size})};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::shared_ptr<Rank> rank = comm->rank;
  {
    absl::MutexLock lock(&TheRegistry().mutex);
    const auto injected = TheRegistry().errors.find(rank->rank);
    if (injected != TheRegistry().errors.end() && injected->second != ncclSuccess) {
      *error = injected->second;
      return ncclSuccess;
    }
  }
  std::vector<Transfer> group;
  cudaStream_t stream = nullptr;
  {
    absl::MutexLock lock(&rank->world->mutex);
    const bool all_here = rank->phase != Phase::kJoining || rank->world->joined == rank->size;
    if ((rank->phase == Phase::kJoining || rank->phase == Phase::kWorking) && all_here &&
        ++rank->looks > kLooksInProgress) {
      rank->phase = Phase::kReady;
      group = std::exchange(rank->group, {});
      stream = rank->stream;
    }
    const bool settled =
        rank->phase == Phase::kReady || (rank->phase == Phase::kFinalizing && rank->world->finalized == rank->size);
    *error = rank->result != ncclSuccess || settled ? rank->result : ncclInProgress;
  }
  // Without the world's lock: enqueuing may run operations that need it.
  if (!group.empty()) EnqueueGroup(rank, stream, std::move(group));
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  AwaitRelease(Ending::kFinalize);
  Rank& rank = *comm->rank;
  absl::MutexLock lock(&rank.world->mutex);
  if (rank.phase != Phase::kReady) return ncclInvalidUsage;
  rank.phase = Phase::kFinalizing;
  rank.world->finalized++;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  AwaitRelease(Ending::kDestroy);
  Release(comm, /*abort=*/false);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  AwaitRelease(Ending::kAbort);
  Release(comm, /*abort=*/true);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  group_depth++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  return --group_depth == 0 ? Launch() : ncclSuccess;
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {{.peer = peer, .from = from, .to = nullptr, .bytes = count}});
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, stream, {{.peer = peer, .from = nullptr, .to = to, .bytes = count}});
}

ncclResult_t ncclAllGather(const void* part, void* whole, size_t count, ncclDataType_t, ncclComm_t comm,
                           cudaStream_t stream) {
  const Rank& rank = *comm->rank;
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < rank.size; peer++) {
    char* place = static_cast<char*>(whole) + peer * count;
    if (peer != rank.rank) {
      transfers.push_back({.peer = peer, .from = part, .to = nullptr, .bytes = count});
      transfers.push_back({.peer = peer, .from = nullptr, .to = place, .bytes = count});
    } else {
      transfers.push_back({.peer = peer, .from = part, .to = place, .bytes = count});
    }
  }
  return Add(comm, stream, transfers);
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  const Rank& rank = *comm->rank;
  if (rank.rank != root) return Add(comm, stream, {{.peer = root, .from = nullptr, .to = to, .bytes = count}});
  std::vector<Transfer> transfers = {{.peer = root, .from = from, .to = to, .bytes = count}};
  for (int peer = 0; peer < rank.size; peer++) {
    if (peer != root) transfers.push_back({.peer = peer, .from = from, .to = nullptr, .bytes = count});
  }
  return Add(comm, stream, transfers);
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclSystemError: return "system error";
    case ncclRemoteError: return "remote error";
    case ncclInvalidUsage: return "invalid usage";
    default: return "error";
  }
}

const char* ncclGetLastError(ncclComm_t) { return "emulated"; }

}  // extern "C"
