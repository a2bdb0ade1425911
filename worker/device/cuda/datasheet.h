// A GPU's rates by NVIDIA's datasheets: the ceiling that measured rates are compared with.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_DATASHEET_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_DATASHEET_H_

#include <string_view>

#include "worker/device/dtype.h"

namespace zerofleet::device::cuda {

// FLOP/s of dense products in `dtype` of the model `name`, as the driver spells it; 0 for an unknown model. fp32 is
// fp32: this product never computes in tf32.
double DatasheetFlops(std::string_view name, DType dtype);

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_DATASHEET_H_
