// See routed_gather.h.
#include "worker/collective/routed_gather.h"

#include <algorithm>

#include "base/units.h"

namespace zerofleet::collective {
namespace {

// The length of a shard's chunks with several nodes: enough for a connection's full speed, little compared with the
// shards of a large unit.
constexpr int64_t kGatherChunkBytes = 1 << 20;

}  // namespace

// Messages are matched by their order, so both of two ranks list the shards between them in ascending order. Each rank
// begins with a different peer.
RoutedGather::RoutedGather(const Topology& topology) : topology_(topology) {
  const int rank = topology.rank(), size = topology.size();
  for (int distance = 1; distance < size; distance++) {
    const int to = (rank + distance) % size, from = (rank + size - distance) % size;
    for (int shard = 0; shard < size; shard++) {
      if (shard != rank && topology.Source(shard, rank) == from) {
        (shard == from ? direct_ : passed_on_).incoming.push_back({from, shard});
      }
      if (shard != to && topology.Source(shard, to) == rank) {
        (shard == rank ? direct_ : passed_on_).outgoing.push_back({to, shard});
      }
    }
  }
}

absl::Status RoutedGather::Run(ExchangeTransport& transport, const std::byte* shard, std::byte* full, int64_t count,
                               int64_t element_bytes) const {
  const int rank = topology_.rank(), size = topology_.size();
  const int64_t longest = ShardRange(count, size, 0).size();
  const bool one_node = topology_.nodes() == 1;
  const int64_t chunk_elements = one_node ? std::max<int64_t>(longest, 1) : kGatherChunkBytes / element_bytes;
  const int64_t chunks = CeilDivide(longest, chunk_elements);
  const int64_t own_begin = ShardRange(count, size, rank).begin;
  const auto add = [&](const Route& route, int64_t chunk, ExchangeTransport::Messages& messages) {
    const auto part = [&](int owner) {
      return Within(ShardRange(count, size, owner), chunk * chunk_elements, chunk_elements);
    };
    for (const Hop& hop : route.incoming) {
      const Range range = part(hop.shard);
      if (range.size() == 0) continue;
      messages.incoming.push_back({hop.peer, full + range.begin * element_bytes, range.size() * element_bytes});
    }
    for (const Hop& hop : route.outgoing) {
      const Range range = part(hop.shard);
      if (range.size() == 0) continue;
      const std::byte* from =
          hop.shard == rank ? shard + (range.begin - own_begin) * element_bytes : full + range.begin * element_bytes;
      messages.outgoing.push_back({hop.peer, from, range.size() * element_bytes});
    }
  };
  return RunExchange(
      transport, one_node || chunks == 0 ? chunks : chunks + kExchangeDepth,
      [&](int64_t step, ExchangeTransport::Messages& messages) {
        add(direct_, step, messages);
        if (!one_node && step >= kExchangeDepth) add(passed_on_, step - kExchangeDepth, messages);
      },
      [](int64_t) {});
}

}  // namespace zerofleet::collective
