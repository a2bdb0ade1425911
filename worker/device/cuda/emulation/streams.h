// Streams and events of the emulated CUDA runtime: work stays in each stream's queue until a scheduler runs it.
//
// An operation may run at any moment after those before it on its stream, and after the events that its stream waits
// for; nothing else orders two streams, or a stream and the host. The scheduler chooses when it runs:
//
//   eagerly   as soon as it may, on the thread that enqueues it. The default; a missing event goes unnoticed
//   by seed   at a moment drawn from the seed, often as late as possible, with streams overtaking each other: a missing
//             event or a missing wait of the host then changes the result for some seeds
//
// The scheduler has no thread; the host's calls drive it. A call that enqueues, queries or waits may run any stream's
// operations, so operations must not call the runtime.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_STREAMS_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_STREAMS_H_

#include <driver_types.h>

#include <cstdint>
#include <functional>

namespace zerofleet::device::cuda::emulation {

// Both apply to all threads, and keep what is already enqueued. Until one is called, ZEROFLEET_EMULATION_SEED in the
// environment gives the seed; if it is not set, scheduling is eager.
void ScheduleEagerly();
void ScheduleBySeed(uint64_t seed);

// `work` must hold copies of what it needs, and is called once. In virtual time (virtual_time.h) it takes a kernel's.
void Enqueue(cudaStream_t stream, std::function<void()> work);
// As Enqueue, for a copy from `from`, of which `link_bytes` cross between host and device.
void EnqueueCopy(cudaStream_t stream, const void* from, int64_t link_bytes, std::function<void()> copy);

enum class Progress {
  kBlocked,  // no progress is possible; step is called again once something else has happened
  kSome,     // step is called again
  kDone,
};
// For work that waits for something other than events, such as a peer. `step` is called until it returns kDone, one
// call at a time.
void EnqueueSteps(cudaStream_t stream, std::function<Progress()> step);
// Counts the collectives enqueued on this device's streams that are not done; `change` is 1 when one starts, -1 when
// one ends.
void CountCollective(cudaStream_t stream, int change);
int CollectivesInFlight(cudaStream_t stream);
// The flags that an event was created with.
unsigned EventFlags(cudaEvent_t event);
// How often the host has waited for an event that had not been reached and was created without cudaEventBlockingSync:
// a thread would have kept a core busy.
int64_t BusyWaits();
// To be called when something happens outside the streams for which a blocked operation may be waiting.
void WakeStreams();
// Runs everything that can run now.
void DrainStreams();

}  // namespace zerofleet::device::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_STREAMS_H_
