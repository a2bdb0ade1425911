// What NVIDIA's datasheets promise of a GPU: the ceiling that a measured rate stands beside.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_DATASHEET_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_DATASHEET_H_

#include <string_view>

#include "worker/device/dtype.h"

namespace zerofleet::cuda {

// FLOP/s of dense products in `dtype` by the model of this `name`, as the driver spells it; 0 for one that is not known
// here. fp32 is fp32: this product never computes in tf32.
double DatasheetFlops(std::string_view name, DType dtype);

}  // namespace zerofleet::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_DATASHEET_H_
