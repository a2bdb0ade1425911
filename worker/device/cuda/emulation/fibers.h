// Runs the threads of a GPU block as fibers of the calling thread, for tests of the kernels' own source.
//
// Blocks run one after another. A fiber runs a thread's body until it waits at a barrier or in an exchange, and only
// then switches to another: a kernel without either runs as a plain loop over its threads. Each host thread has its own
// fibers, so ranks that are threads may run grids concurrently.
//
// Behaviour that is undefined on a GPU fails a CHECK that names the op and prints where each thread is: threads of a
// block at different barriers, a thread that ends while others wait, lanes that exchange in different places or have
// ended.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_FIBERS_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_FIBERS_H_

#include <vector_types.h>

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace zerofleet::device::cuda::emulation {

struct ThreadPlace {
  dim3 thread, block, block_size, grid_size;
};

// The order in which blocks are run, and threads between two waits. A correct kernel gives the same bits in every
// order; one that lacks a barrier, or reads what another block writes, does not.
enum class ThreadOrder { kForward, kBackward, kShuffled };
// Sets the calling thread's order. Until then the environment variable ZEROFLEET_EMULATION_ORDER decides: forward (the
// default), backward or shuffled.
void SetThreadOrder(ThreadOrder order);

// Calls `thread_body` once for every thread of every block. Dynamic shared memory is filled with NaN before each block.
// CHECKs a GPU's limits: 1024 threads per block, 65535 blocks in y and z, 227 KiB of dynamic shared memory.
void RunGrid(const char* op, dim3 grid, dim3 block, size_t shared_bytes, absl::FunctionRef<void()> thread_body);

// The rest may be called only within RunGrid. `line` distinguishes barriers and exchanges in the kernel's source.
const ThreadPlace& CurrentThread();
void Barrier(int line);
// The value of the thread of this warp whose lane is this thread's lane xor `lanes`. All 32 lanes take part.
uint64_t ExchangeXor(uint64_t value, int lanes, int line);
void* DynamicShared();  // aligned to 16 bytes and no more, as a GPU promises

}  // namespace zerofleet::device::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_FIBERS_H_
