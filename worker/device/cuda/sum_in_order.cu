// See sum_in_order.h.
//
// One pass, whatever the number of ranks: an fp32 sum between several launches would need memory of its own, as `to`
// may be narrower, or an input. So all pointers are kernel parameters, in the smallest of a few arrays that fits, since
// a launch copies them.
#include <algorithm>

#include "base/check.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/map.cuh"
#include "worker/device/cuda/sum_in_order.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int kFew = 16, kSome = 256;

template <typename T, int kMost>
struct ContributionsSource {
  int count = 0;
  bool vector = false;
  const float* initial = nullptr;
  const T* data[kMost];

  template <int kLanes>
  void Align(int64_t first) {
    vector = std::all_of(data, data + count, [&](const T* at) { return VectorAligned<kLanes>(at + first); }) &&
             (initial == nullptr || VectorAligned<kLanes>(initial + first));
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    LoadLanes(data[0] + i, vector, kLanes, lanes);
    if (initial != nullptr) {
      float before[kLanes];
      LoadLanes(initial + i, vector, kLanes, before);
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = before[lane] + lanes[lane];
    }
    for (int rank = 1; rank < count; ++rank) {
      float more[kLanes];
      LoadLanes(data[rank] + i, vector, kLanes, more);
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += more[lane];
    }
  }
};

template <int kMost, typename From, typename To>
void LaunchSum(Stream& stream, std::span<const void* const> contributions, To* to, int64_t count,
               const float* initial) {
  constexpr const char* kOp = "SumInOrder";
  ContributionsSource<From, kMost> source;
  source.initial = initial;
  bool in_place = false;
  for (const void* const data : contributions) {
    source.data[source.count++] = static_cast<const From*>(data);
    in_place = in_place || data == to;
  }
  ZF_CHECK(!in_place || sizeof(To) <= sizeof(From));
  if (in_place && sizeof(To) < sizeof(From)) {
    LaunchNarrowingMap<kMapLanes<From, To>>(stream, kOp, count, source, to);
  } else {
    LaunchMap<kMapLanes<From, To>>(stream, kOp, 0, count, source, to);
  }
}

}  // namespace

void EnqueueSumInOrder(CudaStream& stream, std::span<const void* const> contributions, DType dtype, Tensor to,
                       int64_t count, const float* initial) {
  ZF_CHECK(initial == nullptr || to.data != initial || to.dtype == DType::kF32);
  ZF_CHECK(!contributions.empty() && contributions.size() <= kMostContributions);
  WithTypes(dtype, to.dtype, [&](auto from_tag, auto to_tag) {
    using From = typename decltype(from_tag)::Type;
    using To = typename decltype(to_tag)::Type;
    To* const result = static_cast<To*>(to.data);
    if (contributions.size() <= kFew) return LaunchSum<kFew, From>(stream, contributions, result, count, initial);
    if (contributions.size() <= kSome) return LaunchSum<kSome, From>(stream, contributions, result, count, initial);
    LaunchSum<kMostContributions, From>(stream, contributions, result, count, initial);
  });
}

}  // namespace zerofleet::device::cuda
