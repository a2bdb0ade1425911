// The functions of NCCL that nccl_transport.cc calls, for ranks that are threads of one process and memory that is
// the host's: for tests of that file and of nccl.cc on machines without GPUs. The emulation build has it for libnccl.
//
// It behaves as NCCL's non-blocking mode does where that is hardest on the caller. A communicator stays in progress for
// a few looks after all ranks have come, and refuses a rank whose GPU another one made current for it. A group stays in
// progress until it has been carried out, by a thread, and calling anything meanwhile is an error. Emulated streams run
// at once, so what is enqueued behind a settled group comes after it. A rank that aborts makes those that wait for it
// fail, as a closed socket does.
#include <nccl.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/collective/emulation/nccl_control.h"

namespace zerofleet::nccl_emulation {
namespace {

constexpr int kLooksInProgress = 5;

struct Message {
  const void* data;
  size_t bytes;
  bool taken = false;
};

// One half of a transfer: a send, or a receive into `to`.
struct Transfer {
  bool is_send;
  int peer;
  const void* from;
  void* to;
  size_t bytes;
};

// The ranks that met under one unique id.
struct World {
  absl::Mutex mutex;
  absl::CondVar changed;
  int size ABSL_GUARDED_BY(mutex) = 0, joined ABSL_GUARDED_BY(mutex) = 0, finalized ABSL_GUARDED_BY(mutex) = 0;
  std::set<int> devices ABSL_GUARDED_BY(mutex);
  std::map<int, bool> gone ABSL_GUARDED_BY(mutex);  // by rank
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Message>>> mail ABSL_GUARDED_BY(mutex);  // by (from, to)
};

struct Registry {
  absl::Mutex mutex;
  std::map<std::string, std::shared_ptr<World>> worlds ABSL_GUARDED_BY(mutex);
  std::map<int, ncclResult_t> errors ABSL_GUARDED_BY(mutex);
  ncclResult_t unique_id_result ABSL_GUARDED_BY(mutex) = ncclSuccess;
  uint64_t next_id ABSL_GUARDED_BY(mutex) = 1;
  int live ABSL_GUARDED_BY(mutex) = 0;
};

Registry& TheRegistry() {
  static Registry* registry = new Registry;
  return *registry;
}

}  // namespace
}  // namespace zerofleet::nccl_emulation

using namespace zerofleet::nccl_emulation;

struct ncclComm {
  enum class Phase { kJoining, kReady, kWorking, kFinalizing };

  std::shared_ptr<World> world;
  int rank, size;
  Phase phase = Phase::kJoining;  // this and the next: the world's mutex
  ncclResult_t result = ncclSuccess;
  bool aborted = false;
  int looks = 0;
  std::thread thread;
};

namespace zerofleet::nccl_emulation {
namespace {

// Waits until `ready`; an error once this communicator is aborted, or the peer that it takes is gone.
template <class Ready>
ncclResult_t WaitFor(World& world, const ncclComm& comm, int peer, const Ready& ready)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(world.mutex) {
  while (!ready()) {
    if (comm.aborted) return ncclInternalError;
    if (world.gone[peer]) return ncclRemoteError;
    world.changed.Wait(&world.mutex);
  }
  return ncclSuccess;
}

ncclResult_t CarryOut(World& world, const ncclComm& comm, const std::vector<Transfer>& transfers,
                      std::vector<std::pair<int, std::shared_ptr<Message>>>& sent)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(world.mutex) {
  for (const Transfer& transfer : transfers) {
    if (!transfer.is_send) continue;
    auto message = std::make_shared<Message>(Message{transfer.from, transfer.bytes});
    world.mail[{comm.rank, transfer.peer}].push_back(message);
    sent.emplace_back(transfer.peer, message);
  }
  world.changed.SignalAll();
  for (const Transfer& transfer : transfers) {
    if (transfer.is_send) continue;
    auto& box = world.mail[{transfer.peer, comm.rank}];
    const ncclResult_t result = WaitFor(world, comm, transfer.peer, [&] { return !box.empty(); });
    if (result != ncclSuccess) return result;
    const std::shared_ptr<Message> message = box.front();
    box.pop_front();
    message->taken = true;
    world.changed.SignalAll();
    if (message->bytes != transfer.bytes) return ncclInternalError;
    std::memcpy(transfer.to, message->data, message->bytes);
  }
  for (const auto& one : sent) {
    const Message& message = *one.second;
    const ncclResult_t result = WaitFor(world, comm, one.first, [&] { return message.taken; });
    if (result != ncclSuccess) return result;
  }
  return ncclSuccess;
}

void Work(ncclComm& comm, const std::vector<Transfer>& transfers) {
  World& world = *comm.world;
  absl::MutexLock lock(&world.mutex);
  std::vector<std::pair<int, std::shared_ptr<Message>>> sent;
  comm.result = CarryOut(world, comm, transfers, sent);
  // What was not taken is the caller's again.
  for (const auto& [peer, message] : sent) {
    if (!message->taken) std::erase(world.mail[{comm.rank, peer}], message);
  }
  comm.phase = ncclComm::Phase::kReady;
}

thread_local int group_depth = 0;
thread_local ncclComm* group_comm = nullptr;
thread_local std::vector<Transfer> group_transfers;

ncclResult_t Launch() {
  ncclComm* comm = std::exchange(group_comm, nullptr);
  std::vector<Transfer> transfers = std::exchange(group_transfers, {});
  if (comm == nullptr) return ncclSuccess;
  {
    absl::MutexLock lock(&comm->world->mutex);
    if (comm->phase != ncclComm::Phase::kReady || comm->result != ncclSuccess) return ncclInvalidUsage;
    comm->phase = ncclComm::Phase::kWorking;
  }
  if (comm->thread.joinable()) comm->thread.join();
  comm->thread = std::thread([comm, transfers = std::move(transfers)] { Work(*comm, transfers); });
  return ncclInProgress;
}

ncclResult_t Add(ncclComm* comm, std::vector<Transfer> transfers) {
  if (comm == nullptr || (group_comm != nullptr && group_comm != comm)) return ncclInvalidArgument;
  group_comm = comm;
  group_transfers.insert(group_transfers.end(), transfers.begin(), transfers.end());
  return group_depth == 0 ? Launch() : ncclSuccess;
}

// Ends the handle; its rank is gone for those that wait for it.
void Release(ncclComm* comm, bool abort) {
  {
    absl::MutexLock lock(&comm->world->mutex);
    comm->aborted = abort;
    comm->world->gone[comm->rank] = true;
    comm->world->changed.SignalAll();
  }
  if (comm->thread.joinable()) comm->thread.join();
  delete comm;
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

int LiveCommunicators() {
  absl::MutexLock lock(&TheRegistry().mutex);
  return TheRegistry().live;
}

}  // namespace zerofleet::nccl_emulation

extern "C" {

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
  *comm = new ncclComm{.world = world->second, .rank = rank, .size = size, .thread = {}};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  {
    absl::MutexLock lock(&TheRegistry().mutex);
    const auto injected = TheRegistry().errors.find(comm->rank);
    if (injected != TheRegistry().errors.end() && injected->second != ncclSuccess) {
      *error = injected->second;
      return ncclSuccess;
    }
  }
  absl::MutexLock lock(&comm->world->mutex);
  if (comm->phase == ncclComm::Phase::kJoining && comm->world->joined == comm->size &&
      ++comm->looks > kLooksInProgress) {
    comm->phase = ncclComm::Phase::kReady;
  }
  const bool settled = comm->phase == ncclComm::Phase::kReady ||
                       (comm->phase == ncclComm::Phase::kFinalizing && comm->world->finalized == comm->size);
  *error = settled ? comm->result : ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  absl::MutexLock lock(&comm->world->mutex);
  if (comm->phase != ncclComm::Phase::kReady) return ncclInvalidUsage;
  comm->phase = ncclComm::Phase::kFinalizing;
  comm->world->finalized++;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Release(comm, /*abort=*/false);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
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

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t) {
  return Add(comm, {{true, peer, from, nullptr, count}});
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t) {
  return Add(comm, {{false, peer, nullptr, to, count}});
}

ncclResult_t ncclAllGather(const void* part, void* whole, size_t count, ncclDataType_t, ncclComm_t comm, cudaStream_t) {
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < comm->size; peer++) {
    char* place = static_cast<char*>(whole) + peer * count;
    if (peer != comm->rank) {
      transfers.push_back({true, peer, part, nullptr, count});
      transfers.push_back({false, peer, nullptr, place, count});
    } else if (place != part) {
      std::memcpy(place, part, count);
    }
  }
  return Add(comm, std::move(transfers));
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t, int root, ncclComm_t comm,
                           cudaStream_t) {
  if (comm->rank != root) return Add(comm, {{false, root, nullptr, to, count}});
  if (from != to) std::memcpy(to, from, count);
  std::vector<Transfer> transfers;
  for (int peer = 0; peer < comm->size; peer++) {
    if (peer != root) transfers.push_back({true, peer, from, nullptr, count});
  }
  return Add(comm, std::move(transfers));
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
