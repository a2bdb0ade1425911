// See sum.h. One pass: a vector's sum stays in a register while each contribution is read once, and is then written
// once. It uses only additions and conversions, which give the same bits on every instruction set.
#include "worker/collective/sum.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/collective/sum.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "worker/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zerofleet::collective::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using device::kernels::HWY_NAMESPACE::CanStream;
using device::kernels::HWY_NAMESPACE::FloatLanes;
using device::kernels::HWY_NAMESPACE::FloatVec;
using device::kernels::HWY_NAMESPACE::ForVectors;
using device::kernels::HWY_NAMESPACE::Read;
using device::kernels::HWY_NAMESPACE::StoreStreaming;
using device::kernels::HWY_NAMESPACE::WithType;
using device::kernels::HWY_NAMESPACE::Write;

template <typename From, typename To>
void SumRows(std::span<const void* const> contributions, To* to, int64_t count, const float* initial, Stores stores) {
  const bool streams = stores == Stores::kStreaming && CanStream(to);
  ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
    FloatVec sum = Read(static_cast<const From*>(contributions[0]) + i, lanes);
    if (initial != nullptr) sum = hn::Add(Read(initial + i, lanes), sum);
    for (size_t row = 1; row < contributions.size(); row++) {
      sum = hn::Add(sum, Read(static_cast<const From*>(contributions[row]) + i, lanes));
    }
    if (streams && lanes == FloatLanes())
      StoreStreaming(sum, to + i);
    else
      Write(sum, to + i, lanes);
  });
  if (streams) hwy::FlushStream();
}

void SumInOrderImpl(std::span<const void* const> contributions, device::DType dtype, device::Tensor to, int64_t count,
                    const float* initial, Stores stores) {
  WithType({const_cast<void*>(contributions[0]), dtype}, [&](auto* from) HWY_ATTR {
    WithType(to, [&](auto* result) HWY_ATTR {
      SumRows<std::remove_pointer_t<decltype(from)>>(contributions, result, count, initial, stores);
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
                           int64_t count, const float* initial, Stores stores) {
  HWY_DYNAMIC_DISPATCH(SumInOrderImpl)(contributions, dtype, to, count, initial, stores);
}

}  // namespace kernels

void SumInOrder(std::span<const void* const> contributions, device::DType dtype, device::Tensor to, int64_t count,
                const float* initial, Stores stores) {
  kernels::SumRowsInOrder(contributions, dtype, to, count, initial, stores);
}

Stores StoresFor(int64_t bytes) {
  constexpr int64_t kKept = 1 << 20;  // the most that a core's own cache keeps
  return bytes > kKept ? Stores::kStreaming : Stores::kCached;
}

// With several teams it proceeds in blocks: one sum per team, then the sum of those sums.
void SumRanksInOrder(const Topology& topology, std::span<const void* const> contributions, device::DType dtype,
                     device::Tensor to, int64_t count, const float* initial, Stores stores) {
  if (topology.teams() == 1) return SumInOrder(contributions, dtype, to, count, initial, stores);
  ZF_CHECK(static_cast<int>(contributions.size()) == topology.size());
  ZF_CHECK(initial == nullptr);
  constexpr int64_t kBlock = 4096;
  const int64_t element_bytes = device::DTypeBytes(dtype);
  std::vector<float> sums(topology.teams() * kBlock);
  std::vector<const void*> team_sums, of_team;
  for (int team = 0; team < topology.teams(); team++) team_sums.push_back(&sums[team * kBlock]);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t block = std::min(kBlock, count - begin);
    for (int team = 0; team < topology.teams(); team++) {
      of_team.clear();
      for (int mate = 0; mate < topology.SizeOf(team); mate++) {
        const void* const data = contributions[topology.FirstOf(team) + mate];
        of_team.push_back(static_cast<const std::byte*>(data) + begin * element_bytes);
      }
      SumInOrder(of_team, dtype, {&sums[team * kBlock], device::DType::kF32}, block);
    }
    SumInOrder(team_sums, device::DType::kF32, to.Offset(begin), block, nullptr, stores);
  }
}

}  // namespace zerofleet::collective
#endif
