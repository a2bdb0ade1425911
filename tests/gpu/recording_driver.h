// A stand-in for the CUDA driver, without a device, that records the kernels it is given; for attention_plans.
#ifndef ZEROFLEET_TESTS_GPU_RECORDING_DRIVER_H_
#define ZEROFLEET_TESTS_GPU_RECORDING_DRIVER_H_

#include <string>
#include <vector>

namespace zerofleet::device::cuda {

// The names of the kernels that were looked up since the last call, in order.
std::vector<std::string> TakeKernels();

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_TESTS_GPU_RECORDING_DRIVER_H_
