// Virtual time: what a schedule would take on a machine whose kernels, copies and host updates take the times that a
// test sets, and that does at once whatever may be done at once. Tests assert with it what runs beside what.
//
// It is computed when an operation is enqueued, since its dependencies are known then, so it depends neither on when
// the scheduler runs the operation nor on a clock. An operation begins when the one before it on its stream has ended
// and the host thread that enqueues it has got there. A stream that waits for an event, and a host thread that waits
// for one or sees that it is reached, go on no earlier than the event; cudaEventElapsedTime gives virtual times.
// A thread that asks whether a stream is idle learns no time: the backend only looks for failures that way, and the
// answer depends on the scheduler.
//
// Not modelled: several streams that share one direction of the link, or the GPU's multiprocessors; collectives, which
// take no time and wait for no peer; cudaDeviceSynchronize; and a host thread that waits for another one without an
// event. What that thread has written and a copy then reads carries its time where HostWrote notes it.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_VIRTUAL_TIME_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_VIRTUAL_TIME_H_

#include <cstdint>

namespace zerofleet::device::cuda::emulation {

// In virtual microseconds.
struct VirtualCosts {
  int64_t kernel = 0;     // of a kernel, a library's call or a memset
  int64_t link_byte = 0;  // of a byte copied between host and device
};

// Makes virtual time pass from now on, for all threads, and forgets what HostWrote noted.
void StartVirtualTime(const VirtualCosts& costs);
// Back to the state before the first start: events have the clock's times.
void StopVirtualTime();
bool VirtualTimePasses();
VirtualCosts CurrentCosts();  // all 0 where virtual time does not pass

// The calling thread's time, in virtual microseconds.
int64_t HostTime();
void SpendHostTime(int64_t microseconds);
void AwaitHostTime(int64_t time);  // no earlier than `time` from now on

// Notes that the calling thread has just written memory that begins at `data`: a copy to a GPU that begins there starts
// no earlier.
void HostWrote(const void* data);
int64_t WrittenAt(const void* data);  // 0 if it was never noted

}  // namespace zerofleet::device::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_VIRTUAL_TIME_H_
