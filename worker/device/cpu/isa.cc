// See isa.h.
#include "worker/device/cpu/isa.h"

#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/matmul_primitive.h"

namespace zerofleet::device {

std::string IsaName() {
  std::string name = kernels::TargetName();
  if (HasBF16Instructions()) name += " bf16";
  return name;
}

}  // namespace zerofleet::device
