// See sum.h. One pass: a vector's sum stays in a register while every contribution to it is read once, and is written
// once. Only additions and conversions, which all instruction sets do alike, so the set that runs changes no bit.
#include "worker/collective/sum.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/collective/sum.cc"
#include "hwy/foreach_target.h"
#include "worker/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zerofleet::collective::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using device::kernels::HWY_NAMESPACE::FloatVec;
using device::kernels::HWY_NAMESPACE::ForVectors;
using device::kernels::HWY_NAMESPACE::Read;
using device::kernels::HWY_NAMESPACE::WithType;
using device::kernels::HWY_NAMESPACE::Write;

template <typename From, typename To>
void SumRows(std::span<const void* const> contributions, To* to, int64_t count, const float* initial) {
  ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
    FloatVec sum = Read(static_cast<const From*>(contributions[0]) + i, lanes);
    if (initial != nullptr) sum = hn::Add(Read(initial + i, lanes), sum);
    for (size_t row = 1; row < contributions.size(); row++) {
      sum = hn::Add(sum, Read(static_cast<const From*>(contributions[row]) + i, lanes));
    }
    Write(sum, to + i, lanes);
  });
}

void SumInOrderImpl(std::span<const void* const> contributions, device::DType dtype, device::Tensor to, int64_t count,
                    const float* initial) {
  WithType({const_cast<void*>(contributions[0]), dtype}, [&](auto* from) HWY_ATTR {
    WithType(to, [&](auto* result) HWY_ATTR {
      SumRows<std::remove_pointer_t<decltype(from)>>(contributions, result, count, initial);
    });
  });
}

}  // namespace zerofleet::collective::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zerofleet::collective {
namespace kernels {

HWY_EXPORT(SumInOrderImpl);

static void SumRowsInOrder(std::span<const void* const> contributions, device::DType dtype, device::Tensor to,
                           int64_t count, const float* initial) {
  HWY_DYNAMIC_DISPATCH(SumInOrderImpl)(contributions, dtype, to, count, initial);
}

}  // namespace kernels

void SumInOrder(std::span<const void* const> contributions, device::DType dtype, device::Tensor to, int64_t count,
                const float* initial) {
  kernels::SumRowsInOrder(contributions, dtype, to, count, initial);
}

}  // namespace zerofleet::collective
#endif
