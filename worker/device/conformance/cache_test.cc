// Attention to a cache on every device: sequences given in pieces, compared with the whole sequence at once.
#include "worker/device/cache_ops.h"

#include <algorithm>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

class CacheOpsTest : public DeviceTest {
 protected:
  std::vector<float> Whole(const AttentionShape& s, const std::vector<float>& qkv) {
    const DeviceTensor from = Put(qkv), out = Room(s.time * s.heads * s.head_size);
    const DeviceTensor logsumexp = PutFloat(std::vector<float>(s.time * s.heads));
    const DeviceTensor scratch(device(), ops().AttentionScratchBytes(s));
    ops().AttentionForward(stream(), {.shape = s,
                                      .qkv = from.tensor(),
                                      .out = out.tensor(),
                                      .logsumexp = logsumexp.as(),
                                      .scratch = scratch.as<void>()});
    return Get(out);
  }

  // The same sequence in pieces, with a cache that has room for `capacity` tokens.
  std::vector<float> InPieces(const AttentionShape& s, const std::vector<float>& qkv, int64_t capacity,
                              const std::vector<int64_t>& pieces) {
    const int64_t cached = s.kv_heads * capacity * s.head_size;
    const DeviceTensor keys = Put(std::vector<float>(cached, 9.0f)), values = Put(std::vector<float>(cached, 9.0f));
    AttentionShape most = s;
    most.time = capacity;
    const DeviceTensor scratch(device(), ops().AttentionScratchBytes(most));
    std::vector<float> all;
    int64_t past = 0;
    for (const int64_t piece : pieces) {
      AttentionShape shape = s;
      shape.time = piece;
      const auto first = qkv.begin() + past * s.columns();
      const DeviceTensor from = Put({first, first + piece * s.columns()}), out = Room(piece * s.heads * s.head_size);
      ops().cache().CachedAttention(stream(), {.shape = shape,
                                               .past = past,
                                               .capacity = capacity,
                                               .qkv = from.tensor(),
                                               .keys = keys.tensor(),
                                               .values = values.tensor(),
                                               .out = out.tensor(),
                                               .scratch = scratch.as<void>()});
      const auto got = Get(out);
      all.insert(all.end(), got.begin(), got.end());
      past += piece;
    }
    return all;
  }
};

TEST_P(CacheOpsTest, PiecesAreTheWhole) {
  // One head of keys and values per query head and per group of them, odd and wide heads, full and partly filled
  // caches.
  for (const auto& [s, capacity] :
       {std::pair<AttentionShape, int64_t>{{1, 12, 3, 5}, 12}, {{1, 12, 6, 64, 2}, 40}, {{1, 12, 4, 72, 1}, 13}}) {
    const auto qkv = Random(s.time * s.columns(), 1);
    const auto whole = Whole(s, qkv);
    for (const std::vector<int64_t>& pieces : {std::vector<int64_t>{12}, {7, 1, 1, 3}, {1, 5, 1, 4, 1}}) {
      // Both are rounded, and a whole sequence may take other kernels.
      ExpectClose(InPieces(s, qkv, capacity, pieces), {whole.begin(), whole.end()}, dtype(), /*roundings=*/2);
    }
  }
}

TEST_P(CacheOpsTest, BitsDoNotDependOnThePieces) {
  const AttentionShape s{1, 9, 6, 10, 3};
  const auto qkv = Random(s.time * s.columns(), 2);
  EXPECT_EQ(InPieces(s, qkv, 9, {5, 1, 1, 2}), InPieces(s, qkv, 20, {1, 1, 1, 1, 1, 1, 1, 1, 1}));
}

ZF_CONFORMANCE(CacheOpsTest);

}  // namespace
}  // namespace zerofleet::device
