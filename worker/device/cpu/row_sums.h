// Sums over the rows of a matrix, the same with any number of threads.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_ROW_SUMS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_ROW_SUMS_H_

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "worker/device/cpu/thread_pool.h"

namespace zerofleet::device {

// Calls body(begin, end, partial) for blocks of 64 of the rows, in parallel. `partial` holds sums.size() vectors of
// `columns` floats, zero at first, one behind the other: the block's part of each sum, to which body adds row by row.
// The blocks' parts are added in the order of the blocks, and the total is added to sums[i] unless that is null. Short
// chains of fp32 additions round less.
void SumOverRows(ThreadPool& pool, int64_t rows, int64_t columns, std::span<float* const> sums,
                 absl::FunctionRef<void(int64_t begin, int64_t end, float* partial)> body);

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_ROW_SUMS_H_
