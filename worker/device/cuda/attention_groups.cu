// See attention_groups.h. Both are maps (map.cuh) over rows of heads: lanes that are loaded together lie in one head.
#include "worker/device/cuda/attention_groups.h"

#include "base/check.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/map.cuh"

namespace zerofleet::device::cuda {
namespace {

// Rows of H heads of queries, then keys, then values, as they are read or written: of G heads, or of H copies.
struct Heads {
  int queries, sharing, size;
  int64_t columns, copied_columns;

  explicit Heads(const AttentionShape& s)
      : queries(static_cast<int>(s.heads)),
        sharing(static_cast<int>(s.heads / s.kv_heads)),
        size(static_cast<int>(s.head_size)),
        columns(s.columns()),
        copied_columns(WithoutGroups(s).columns()) {}
};

// Where element `i` lies in rows of `columns`: its row, its head in the row, its place in the head.
struct Place {
  int64_t row;
  int head, at;

  __device__ Place(int64_t i, int64_t columns, int size) : row(i / columns) {
    const int column = static_cast<int>(i - row * columns);
    head = column / size;
    at = column - head * size;
  }
};

template <typename T>
struct GroupCopySource {
  const T* qkv;
  Heads heads;
  bool vector = false;

  template <int kLanes>
  void Align(int64_t first) {
    vector = first == 0 && heads.size % kLanes == 0 && VectorAligned<kLanes>(qkv);
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    if (vector || kLanes == 1) return LoadLanes(From(i), vector, kLanes, lanes);
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = Widen(*From(i + lane));
  }
  __device__ const T* From(int64_t i) const {
    const Place place(i, heads.copied_columns, heads.size);
    const int copy = place.head - heads.queries;
    const int head = copy < 0 ? place.head : heads.queries + copy / heads.sharing;
    return qkv + place.row * heads.columns + int64_t{head} * heads.size + place.at;
  }
};

template <typename T>
struct GroupSumSource {
  const T* dcopied;
  Heads heads;
  bool vector = false;

  template <int kLanes>
  void Align(int64_t first) {
    vector = first == 0 && heads.size % kLanes == 0 && VectorAligned<kLanes>(dcopied);
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    if (vector || kLanes == 1) return LoadOfOneHead(i, lanes);
    for (int lane = 0; lane < kLanes; ++lane) {
      float one[1];
      LoadOfOneHead(i + lane, one);
      lanes[lane] = one[0];
    }
  }
  template <int kLanes>
  __device__ void LoadOfOneHead(int64_t i, float (&lanes)[kLanes]) const {
    const Place place(i, heads.columns, heads.size);
    const int shared = place.head - heads.queries;
    const int copy = shared < 0 ? place.head : heads.queries + shared * heads.sharing;
    const T* from = dcopied + place.row * heads.copied_columns + int64_t{copy} * heads.size + place.at;
    LoadLanes(from, vector, kLanes, lanes);
    for (int more = shared < 0 ? 1 : heads.sharing; more > 1; --more) {
      float next[kLanes];
      LoadLanes(from += heads.size, vector, kLanes, next);
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += next[lane];
    }
  }
};

int64_t Tokens(const AttentionShape& shape) { return shape.batch * shape.time; }

}  // namespace

AttentionShape WithoutGroups(const AttentionShape& shape) {
  return {shape.batch, shape.time, shape.heads, shape.head_size};
}

void CopyGroups(Stream& stream, const char* op, const AttentionShape& shape, Tensor qkv, Tensor copied) {
  ZF_CHECK(shape.heads % shape.kv_heads == 0);
  WithType(qkv.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LaunchMap<kMapLanes<T>>(stream, op, 0, Tokens(shape) * WithoutGroups(shape).columns(),
                            GroupCopySource<T>{static_cast<const T*>(qkv.data), Heads(shape)},
                            static_cast<T*>(copied.data));
  });
}

void SumGroups(Stream& stream, const char* op, const AttentionShape& shape, Tensor dcopied, Tensor dqkv) {
  ZF_CHECK(shape.heads % shape.kv_heads == 0);
  WithType(dqkv.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LaunchMap<kMapLanes<T>>(stream, op, 0, Tokens(shape) * shape.columns(),
                            GroupSumSource<T>{static_cast<const T*>(dcopied.data), Heads(shape)},
                            static_cast<T*>(dqkv.data));
  });
}

}  // namespace zerofleet::device::cuda
