// A GPU's FLOP/s from NVIDIA's datasheets: the ceiling with which measured rates are compared.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_DATASHEET_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_DATASHEET_H_

#include <string_view>

#include "worker/device/dtype.h"

namespace zerofleet::device::cuda {

// FLOP/s of dense matrix products in `dtype` on the GPU model `name`, as the driver spells it; 0 for an unknown model.
// fp32 means fp32: Zerofleet never computes in tf32.
double DatasheetFlops(std::string_view name, DType dtype);

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_DATASHEET_H_
