// Streams and events of the emulated CUDA runtime: work stays in each stream's queue until a scheduler runs it.
//
// An operation may run at any moment after those before it on its stream, and after the events that its stream waits
// for; nothing else orders two streams, or a stream and the host. The scheduler chooses when it runs:
//
//   eagerly   as soon as it may, on the thread that enqueues it: the default, in which a missing event goes unnoticed
//   by seed   at a moment drawn from the seed, often as late as possible, with streams overtaking each other: a missing
//             event or a missing wait of the host then changes the result for some seeds
//
// The host's calls drive it; it has no thread. A caller that enqueues, queries or waits may be made to run any stream's
// operations, which is why operations must not call the runtime.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_STREAMS_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_STREAMS_H_

#include <driver_types.h>

#include <cstdint>
#include <functional>

namespace zerofleet::device::cuda::emulation {

// For all threads. Until one is called, the environment variable ZEROFLEET_EMULATION_SEED gives the seed; eager if it
// is not set. What is already enqueued stays.
void ScheduleEagerly();
void ScheduleBySeed(uint64_t seed);

// `work` copies what it needs, and is called once.
void Enqueue(cudaStream_t stream, std::function<void()> work);

enum class Progress {
  kBlocked,  // no progress is possible; called again once something else has happened
  kSome,     // called again
  kDone,
};
// For work that waits for something other than events, such as a peer: called until it is done, one call at a time.
void EnqueueSteps(cudaStream_t stream, std::function<Progress()> step);
// Collectives enqueued on streams of this stream's device and not done; `change` is 1 for one that starts, -1 for one
// that ends.
void CountCollective(cudaStream_t stream, int change);
int CollectivesInFlight(cudaStream_t stream);
// To be called when something happened outside the streams that a blocked operation may be waiting for.
void WakeStreams();
// Runs everything that can run now.
void DrainStreams();

}  // namespace zerofleet::device::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_STREAMS_H_
