// The conformance suite of the collective backends: every backend gives exactly the bits of a serial sum in the order
// of topology.h, counts exactly the bytes of the algorithm, and stops when aborted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "worker/collective/address.h"
#include "worker/collective/conformance.h"
#include "worker/collective/in_process.h"
#include "worker/collective/ucx.h"
#include "worker/collective/watchdog_testing.h"

namespace zerofleet::collective {
namespace {

using Bytes = std::vector<unsigned char>;  // compared by memcmp, unlike std::byte

GroupMaker CreateUcxGroup(WithinNode within_node) {
  return [within_node](const GroupShape& shape) {
    std::vector<std::unique_ptr<UcxEndpoint>> endpoints;
    for (int rank = 0; rank < shape.size; rank++) {
      endpoints.push_back(UcxEndpoint::Create({"data"}, within_node).value());
    }
    return JoinAll(shape, endpoints);
  };
}

const AddConformanceBackend in_process("in_process", [](const GroupShape& shape) {
  return CreateInProcessGroup(shape.name, shape.size, shape.team, shape.nodes);
});
const AddConformanceBackend ucx("ucx", CreateUcxGroup(WithinNode::kUcx));
// All ranks are on one node, whatever the shape says; otherwise they would use UCX.
const AddConformanceBackend shared_memory("shared_memory", [](GroupShape shape) {
  shape.nodes.clear();
  return CreateUcxGroup(WithinNode::kSharedMemory)(shape);
});

// Called when the tests are listed, after every file has added its backends.
std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : ConformanceBackends()) names.push_back(name);
  return names;
}

template <typename T>
void Put(T value, Bytes& bytes, int64_t i) {
  std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
}

void PutElement(float value, Bytes& bytes, device::DType dtype, int64_t i) {
  switch (dtype) {
    case device::DType::kF32: return Put(value, bytes, i);
    case device::DType::kBF16: return Put(device::ToBF16(value), bytes, i);
    case device::DType::kF16: return Put(device::ToF16(value), bytes, i);
  }
}

template <typename T>
float Get(const Bytes& bytes, int64_t i) {
  T value;
  std::memcpy(&value, &bytes[i * sizeof value], sizeof value);
  return device::ToFloat(value);
}

float Element(const Bytes& bytes, device::DType dtype, int64_t i) {
  switch (dtype) {
    case device::DType::kF32: return Get<float>(bytes, i);
    case device::DType::kBF16: return Get<device::BF16>(bytes, i);
    case device::DType::kF16: return Get<device::F16>(bytes, i);
  }
  return 0;
}

// Long vectors repeat after so many elements, and so do their sums: a prime, so that no part or chunk begins where a
// repetition does.
constexpr int64_t kPeriod = 8191;

// Lengthens `bytes`, of min(count, kPeriod) elements, to `count` elements.
Bytes Repeated(Bytes bytes, int64_t count, device::DType dtype) {
  const int64_t wanted = count * device::DTypeBytes(dtype);
  const auto period = static_cast<int64_t>(bytes.size());
  bytes.resize(wanted);
  for (int64_t at = period; at < wanted; at += period)
    std::memcpy(&bytes[at], bytes.data(), std::min(period, wanted - at));
  return bytes;
}

// Values whose sum depends on the order of summation.
Bytes Values(int64_t count, device::DType dtype, int seed) {
  std::mt19937 random(seed);
  const int64_t distinct = std::min(count, kPeriod);
  Bytes bytes(distinct * device::DTypeBytes(dtype));
  for (int64_t i = 0; i < distinct; i++) {
    const float value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-30f;
    PutElement(value * (i % 3 == 0 ? 1e4f : 1e-2f), bytes, dtype, i);
  }
  return Repeated(std::move(bytes), count, dtype);
}

// The reference: a serial fp32 sum per team in rank order, then a serial fp32 sum of these in team order, rounded once.
Bytes SerialSum(const std::vector<Bytes>& inputs, int team, device::DType dtype, device::DType to, int64_t count) {
  const int size = static_cast<int>(inputs.size());
  const int64_t distinct = std::min(count, kPeriod);
  Bytes sum(distinct * device::DTypeBytes(to));
  for (int64_t i = 0; i < distinct; i++) {
    float total = 0;
    for (int first = 0; first < size; first += team) {
      float of_team = Element(inputs[first], dtype, i);
      for (int rank = first + 1; rank < std::min(size, first + team); rank++)
        of_team += Element(inputs[rank], dtype, i);
      total = first == 0 ? of_team : total + of_team;
    }
    PutElement(total, sum, to, i);
  }
  return Repeated(std::move(sum), count, to);
}

Bytes Slice(const Bytes& bytes, const Range& range, int64_t element_bytes) {
  return Bytes(bytes.begin() + range.begin * element_bytes, bytes.begin() + range.end * element_bytes);
}

TEST(UcxGroupsTest, AnEndpointJoinsEachOfItsGroups) {
  for (const WithinNode within_node : {WithinNode::kUcx, WithinNode::kSharedMemory}) {
    ExpectEveryGroupJoined([&](int, const std::vector<std::string>& groups) -> std::unique_ptr<CollectiveEndpoint> {
      return UcxEndpoint::Create(groups, within_node).value();
    });
  }
}

// If one rank cannot open a peer's segment, which only shows when they connect, all ranks use UCX, and each says so.
TEST(UcxGroupsTest, RanksThatCannotReadEachOthersMemoryGoOverUcx) {
  std::vector<std::unique_ptr<UcxEndpoint>> endpoints;
  std::vector<std::string> addresses, notices(3);
  for (int rank = 0; rank < 3; rank++) {
    endpoints.push_back(UcxEndpoint::Create({"data"}, WithinNode::kSharedMemory).value());
    addresses.push_back(endpoints.back()->address());
  }
  v1::CollectiveAddress spoilt = OpenAddress(addresses[1]).value();
  (*spoilt.mutable_groups())["data"].mutable_node()->set_nonce(std::string(16, 'x'));
  addresses[1] = SealAddress(spoilt);
  Group group;
  for (int rank = 0; rank < 3; rank++) {
    CollectiveGroup joining = {.name = "data", .rank = rank, .addresses = addresses, .generation = 1};
    joining.trust.notice = [&notices, rank](const std::string& line) { notices[rank] = line; };
    group.push_back(endpoints[rank]->Join(joining).value());
    EXPECT_EQ(group[rank]->backend(), "shared_memory");
  }
  const Watchdog watchdog(group);
  OnEveryRank(3, [&](int rank) {
    std::vector<float> data(1000, static_cast<float>(rank));
    EXPECT_EQ(group[rank]->AllReduce({data.data(), device::DType::kF32}, 1000, "u").Wait(), absl::OkStatus());
    EXPECT_THAT(data, testing::Each(3.0f));
    EXPECT_EQ(group[rank]->backend(), "ucx");
  });
  Destroy(group);
  // Which failure a rank names depends on the order of events.
  EXPECT_THAT(notices,
              testing::Each(testing::StartsWith("collectives of group data go over ucx, not through shared memory: ")));
}

// A group's size, its ranks per team, and the node of each rank.
struct Shape {
  int size, team = 0;
  std::vector<int> nodes = {};
};

class ConformanceTest : public testing::TestWithParam<std::tuple<std::string, Shape>> {
 protected:
  const Shape& shape() const { return std::get<1>(GetParam()); }
  int size() const { return shape().size; }
  int team() const { return shape().team == 0 ? size() : shape().team; }
  Group CreateGroup() const {
    return ConformanceBackends().at(std::get<0>(GetParam()))(
        {.size = size(), .team = shape().team, .nodes = shape().nodes});
  }
  static constexpr int64_t kCounts[] = {0, 1, 7, 64, 1000, 4099};
  // More than two chunks of a part for the small groups, more than one for the large ones, whose chunks are shorter.
  int64_t LongCount() const { return (size() < 8 ? 150'001 : size() < 16 ? 70'001 : 40'001) * size(); }
  // How messages are cut depends only on the width of the elements, so for most types short messages are enough.
  std::vector<int64_t> Counts(bool with_long) const {
    std::vector<int64_t> counts(std::begin(kCounts), std::end(kCounts));
    if (with_long) counts.push_back(LongCount());
    return counts;
  }
};

TEST_P(ConformanceTest, AllGatherPutsEveryPartInPlace) {
  Group group = CreateGroup();
  const Watchdog watchdog(group);
  for (device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (int64_t count : Counts(dtype == device::DType::kBF16)) {
      const Bytes whole = Values(count, dtype, 1);
      std::vector<Bytes> separate(size(), Bytes(whole.size())), in_place = separate;
      OnEveryRank(size(), [&](int rank) {
        const Range mine = ShardRange(count, size(), rank);
        Bytes part = Slice(whole, mine, device::DTypeBytes(dtype));
        ASSERT_EQ(group[rank]->AllGather({part.data(), dtype}, {separate[rank].data(), dtype}, count, "u").Wait(),
                  absl::OkStatus());
        std::copy(part.begin(), part.end(), in_place[rank].begin() + mine.begin * device::DTypeBytes(dtype));
        ASSERT_EQ(group[rank]->AllGather({}, {in_place[rank].data(), dtype}, count, "u").Wait(), absl::OkStatus());
      });
      EXPECT_THAT(separate, testing::Each(whole)) << count;
      EXPECT_THAT(in_place, testing::Each(whole)) << count;
    }
  }
  Destroy(group);
}

TEST_P(ConformanceTest, ReduceScatterGivesTheBitsOfASerialSumInRankOrder) {
  Group group = CreateGroup();
  const Watchdog watchdog(group);
  const std::vector<std::pair<device::DType, device::DType>> types = {
      {device::DType::kF32, device::DType::kF32},  {device::DType::kBF16, device::DType::kBF16},
      {device::DType::kF16, device::DType::kF16},  {device::DType::kF32, device::DType::kBF16},
      {device::DType::kBF16, device::DType::kF32}, {device::DType::kF16, device::DType::kF32}};
  for (auto [from, to] : types) {
    for (int64_t count : Counts(from == to && from != device::DType::kF16)) {
      std::vector<Bytes> inputs, shards;
      for (int rank = 0; rank < size(); rank++) {
        inputs.push_back(Values(count, from, rank + 10));
        shards.push_back(Bytes(ShardRange(count, size(), rank).size() * device::DTypeBytes(to)));
      }
      const Bytes sum = SerialSum(inputs, team(), from, to, count);
      OnEveryRank(size(), [&, from = from, to = to](int rank) {
        const auto reduced =
            group[rank]->ReduceScatter({inputs[rank].data(), from}, {shards[rank].data(), to}, count, "u");
        ASSERT_EQ(reduced.Wait(), absl::OkStatus());
      });
      for (int rank = 0; rank < size(); rank++) {
        EXPECT_TRUE(shards[rank] == Slice(sum, ShardRange(count, size(), rank), device::DTypeBytes(to)))
            << "count " << count << ", rank " << rank << ", " << device::DTypeName(from) << " to "
            << device::DTypeName(to);
      }
    }
  }
  Destroy(group);
}

// Two rounds form one sum, left to right; the last rank contributes nothing to the second.
TEST_P(ConformanceTest, AChainGoesOnFromWhatWasSummed) {
  if (team() != size()) return;  // chains need a single team
  Group group = CreateGroup();
  const Watchdog watchdog(group);
  const int last = std::max(1, size() - 1);
  for (const device::DType from : {device::DType::kF32, device::DType::kBF16}) {
    for (const int64_t count : Counts(from == device::DType::kBF16)) {
      std::vector<Bytes> inputs, shards;
      for (int i = 0; i < 2 * size(); i++) inputs.push_back(Values(count, from, i + 10));
      for (int rank = 0; rank < size(); rank++) shards.push_back(Bytes(ShardRange(count, size(), rank).size() * 4));
      const std::vector<Bytes> links(inputs.begin(), inputs.begin() + size() + last);
      const Bytes sum = SerialSum(links, size() + last, from, device::DType::kF32, count);
      OnEveryRank(size(), [&](int rank) {
        const device::Tensor shard = {shards[rank].data(), device::DType::kF32};
        const auto first = group[rank]->ReduceScatter({inputs[rank].data(), from}, shard, count, "u");
        const SumChain chain = {.initial = static_cast<const float*>(shard.data), .contributors = last};
        const auto second =
            group[rank]->ReduceScatter({inputs[size() + rank].data(), from}, shard, count, "u", nullptr, chain);
        ASSERT_EQ(first.Wait(), absl::OkStatus());
        ASSERT_EQ(second.Wait(), absl::OkStatus());
      });
      for (int rank = 0; rank < size(); rank++) {
        EXPECT_TRUE(shards[rank] == Slice(sum, ShardRange(count, size(), rank), 4))
            << "count " << count << ", rank " << rank << ", " << device::DTypeName(from);
      }
    }
  }
  Destroy(group);
}

TEST_P(ConformanceTest, ReduceScatterMayWriteIntoItsPlace) {
  Group group = CreateGroup();
  const Watchdog watchdog(group);
  for (device::DType to : {device::DType::kF32, device::DType::kBF16}) {
    const int64_t count = LongCount();
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < size(); rank++) inputs.push_back(Values(count, device::DType::kF32, rank));
    const Bytes sum = SerialSum(inputs, team(), device::DType::kF32, to, count);
    OnEveryRank(size(), [&](int rank) {
      const Range mine = ShardRange(count, size(), rank);
      unsigned char* place = inputs[rank].data() + mine.begin * 4;
      ASSERT_EQ(group[rank]->ReduceScatter({inputs[rank].data(), device::DType::kF32}, {place, to}, count, "u").Wait(),
                absl::OkStatus());
      EXPECT_EQ(std::memcmp(place, &sum[mine.begin * device::DTypeBytes(to)], mine.size() * device::DTypeBytes(to)), 0);
    });
  }
  Destroy(group);
}

TEST_P(ConformanceTest, AllReduceGivesEveryRankTheSerialSum) {
  Group group = CreateGroup();
  const Watchdog watchdog(group);
  for (device::DType dtype : {device::DType::kF32, device::DType::kBF16, device::DType::kF16}) {
    for (int64_t count : Counts(dtype == device::DType::kBF16)) {
      std::vector<Bytes> data;
      for (int rank = 0; rank < size(); rank++) data.push_back(Values(count, dtype, rank + 30));
      const Bytes sum = SerialSum(data, team(), dtype, dtype, count);
      OnEveryRank(size(), [&](int rank) {
        ASSERT_EQ(group[rank]->AllReduce({data[rank].data(), dtype}, count, "u").Wait(), absl::OkStatus());
      });
      EXPECT_THAT(data, testing::Each(testing::Truly([&](const Bytes& one) { return one == sum; }))) << count;
    }
  }
  Destroy(group);
}

TEST_P(ConformanceTest, RawBytesReachEveryRank) {
  Group group = CreateGroup();
  const Watchdog watchdog(group);
  for (int64_t bytes : {0, 1, 1000, 300'001}) {
    const Bytes repeated = Slice(Values(bytes * size() / 4 + 1, device::DType::kF32, 1), {0, bytes * size()}, 1);
    std::vector<Bytes> all(size(), Bytes(bytes * size()));
    OnEveryRank(size(), [&](int rank) {
      ASSERT_EQ(group[rank]->AllGatherBytes(repeated.data() + rank * bytes, all[rank].data(), bytes, "u").Wait(),
                absl::OkStatus());
    });
    EXPECT_THAT(all, testing::Each(testing::Truly([&](const Bytes& one) { return one == repeated; }))) << bytes;
  }
  Destroy(group);
}

// Operations posted ahead run in order, whatever the ranks' speeds.
TEST_P(ConformanceTest, PostedOperationsOverlapAndStayInOrder) {
  Group group = CreateGroup();
  const Watchdog watchdog(group);
  constexpr int kOperations = 40;
  std::vector<std::vector<std::vector<float>>> data(size());
  OnEveryRank(size(), [&](int rank) {
    data[rank].resize(kOperations);
    std::vector<Communicator::Pending> pending;
    for (int i = 0; i < kOperations; i++) {
      data[rank][i].assign(1 + i * 37, static_cast<float>(rank + i));
      pending.push_back(group[rank]->AllReduce({data[rank][i].data(), device::DType::kF32}, 1 + i * 37, "u"));
    }
    for (const auto& one : pending) ASSERT_EQ(one.Wait(), absl::OkStatus());
  });
  for (int rank = 0; rank < size(); rank++) {
    for (int i = 0; i < kOperations; i++) {
      EXPECT_THAT(data[rank][i], testing::Each(size() * (size() - 1) / 2.0f + size() * i));
    }
  }
  Destroy(group);
}

// What all ranks together send in a reduce-scatter of `count` elements, by the closed form. In each team every member
// but the collector sends each element to the collector; and every team but the owner's sends each element's sum to the
// owner, as fp32.
int64_t SentTogether(int size, int team, int64_t count, int64_t element_bytes) {
  const int64_t teams = (size + team - 1) / team;
  return count * ((size - teams) * element_bytes + (teams - 1) * 4);
}

TEST_P(ConformanceTest, TotalsCountExactlyTheBytesSent) {
  Group group = CreateGroup();
  const Watchdog watchdog(group);
  const int64_t count = 1003;
  std::vector<std::map<Operation, CollectiveTotals>> totals(size());
  OnEveryRank(size(), [&](int rank) {
    Communicator& communicator = *group[rank];
    Traffic observed;
    communicator.SetObserver([&](const CollectiveRecord& record) {
      observed.sent += record.traffic.sent;
      observed.to_other_nodes += record.traffic.to_other_nodes;
    });
    std::vector<float> full(count, 1), shard(count);
    std::vector<device::BF16> small(count);
    ASSERT_EQ(
        communicator.ReduceScatter({full.data(), device::DType::kF32}, {shard.data(), device::DType::kF32}, count, "u")
            .Wait(),
        absl::OkStatus());
    ASSERT_EQ(communicator.AllGather({}, {small.data(), device::DType::kBF16}, count, "u").Wait(), absl::OkStatus());
    ASSERT_EQ(communicator.AllReduce({small.data(), device::DType::kBF16}, count, "u").Wait(), absl::OkStatus());
    totals[rank] = communicator.totals();
    const Traffic scattered = ReduceScatterTraffic(communicator.topology(), count, 4),
                  narrow = ReduceScatterTraffic(communicator.topology(), count, 2),
                  gathered = AllGatherTraffic(communicator.topology(), count, 2);
    const auto expect = [&](Operation operation, int64_t sent, int64_t to_other_nodes) {
      EXPECT_EQ(totals[rank][operation].bytes, sent) << OperationName(operation) << ", rank " << rank;
      EXPECT_EQ(totals[rank][operation].to_other_nodes, to_other_nodes)
          << OperationName(operation) << ", rank " << rank;
      EXPECT_EQ(totals[rank][operation].calls, 1);
    };
    expect(Operation::kReduceScatter, scattered.sent, scattered.to_other_nodes);
    expect(Operation::kAllGather, gathered.sent, gathered.to_other_nodes);
    expect(Operation::kAllReduce, narrow.sent + gathered.sent, narrow.to_other_nodes + gathered.to_other_nodes);
    EXPECT_EQ(totals[rank][Operation::kAllGather].gathered_bytes, count * 2);
    EXPECT_EQ(totals[rank][Operation::kReduceScatter].gathered_bytes, count * 4);
    EXPECT_GT(totals[rank][Operation::kAllReduce].seconds, 0);
    EXPECT_EQ(observed.sent, scattered.sent + narrow.sent + 2 * gathered.sent);
    EXPECT_EQ(observed.to_other_nodes, scattered.to_other_nodes + narrow.to_other_nodes + 2 * gathered.to_other_nodes);
  });
  int64_t scattered = 0, gathered = 0, reduced = 0;
  for (auto& rank : totals) {
    scattered += rank[Operation::kReduceScatter].bytes;
    gathered += rank[Operation::kAllGather].bytes;
    reduced += rank[Operation::kAllReduce].bytes;
  }
  EXPECT_EQ(scattered, SentTogether(size(), team(), count, 4));
  EXPECT_EQ(gathered, count * (size() - 1) * 2);
  EXPECT_EQ(reduced, SentTogether(size(), team(), count, 2) + count * (size() - 1) * 2);
  Destroy(group);
}

std::string NameOf(const testing::TestParamInfo<std::tuple<std::string, Shape>>& test) {
  const auto& [backend, shape] = test.param;
  return shape.team == 0 ? absl::StrCat(backend, shape.size) : absl::StrCat(backend, shape.size, "by", shape.team);
}

// Every backend with every shape, except large groups on shared memory: they connect slowly and in the same way as over
// UCX.
std::vector<std::tuple<std::string, Shape>> OfEveryBackend(const std::vector<Shape>& shapes) {
  std::vector<std::tuple<std::string, Shape>> cases;
  for (const std::string& backend : BackendNames()) {
    for (const Shape& shape : shapes) {
      if (backend != "shared_memory" || shape.size < 8) cases.emplace_back(backend, shape);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceTest, testing::ValuesIn(OfEveryBackend({{1}, {2}, {3}, {5}, {8}})),
                         NameOf);

// Teams with a node each, teams that are spread over two nodes, teams that share one, and a last team that is shorter
// than the others, also by more than half.
INSTANTIATE_TEST_SUITE_P(Teams, ConformanceTest,
                         testing::ValuesIn(OfEveryBackend({{4, 2, {0, 0, 1, 1}},
                                                           {6, 3, {0, 1, 0, 1, 0, 1}},
                                                           {5, 2, {0, 0, 7, 7, 3}},
                                                           {9, 4, {0, 0, 0, 0, 0, 0, 1, 1, 2}}})),
                         NameOf);

class LifeTest : public testing::TestWithParam<std::string> {
 protected:
  static Group CreateGroup(int size) { return ConformanceBackends().at(GetParam())({.size = size}); }
};

// Waits until the operation has started, according to the progress that the coordinator sees too.
void AwaitStarted(const Communicator& communicator, uint64_t sequence) {
  while (communicator.progress().sequence < sequence) std::this_thread::yield();
}

TEST_P(LifeTest, ProgressNamesTheOperationThatWaits) {
  Group group = CreateGroup(2);
  const Watchdog watchdog(group);
  std::vector<float> data(10), other(10);
  const auto pending = group[0]->AllReduce({data.data(), device::DType::kF32}, 10, "block 3");
  AwaitStarted(*group[0], 1);
  const CollectiveProgress progress = group[0]->progress();
  EXPECT_EQ(progress.group, "data");
  EXPECT_EQ(progress.sequence, 1u);
  EXPECT_EQ(progress.completed, 0u);
  EXPECT_EQ(progress.operation, Operation::kAllReduce);
  EXPECT_EQ(progress.unit, "block 3");
  EXPECT_EQ(group[1]->progress().sequence, 0u);
  EXPECT_EQ(group[1]->AllReduce({other.data(), device::DType::kF32}, 10, "block 3").Wait(), absl::OkStatus());
  EXPECT_EQ(pending.Wait(), absl::OkStatus());
  EXPECT_EQ(group[0]->progress().completed, 1u);
  Destroy(group);
}

TEST_P(LifeTest, ARankThatNeverComesIsFoundByTheWatchdog) {
  const auto wait_for_ever = [] {
    Group group = CreateGroup(2);
    std::vector<float> data(10);
    const Watchdog watchdog(
        [&group] {
          AwaitStarted(*group[0], 1);
          return DescribeProgress(group);
        },
        absl::ZeroDuration());
    group[0]->AllReduce({data.data(), device::DType::kF32}, 10, "block.3").Wait().IgnoreError();
  };
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(wait_for_ever(), "stuck: rank 0 is in all_reduce #1 of block.3; rank 1 has completed 0 and is in none");
}

TEST_P(LifeTest, AbortEndsTheWaitForARankThatNeverComes) {
  for (int64_t count : {10, 1'000'000}) {
    Group group = CreateGroup(3);
    const Watchdog watchdog(group);
    const absl::Status reason = absl::UnavailableError("rank 2 is gone");
    OnEveryRank(2, [&](int rank) {
      std::vector<float> data(count), more(count);
      const auto first = group[rank]->AllReduce({data.data(), device::DType::kF32}, count, "u");
      const auto second = group[rank]->AllGather({}, {more.data(), device::DType::kF32}, count, "u");
      AwaitStarted(*group[rank], 1);
      const double start = Clock::Real().MonotonicSeconds();
      group[rank]->Abort(reason);
      EXPECT_EQ(first.Wait(), reason);
      EXPECT_EQ(second.Wait(), reason);
      EXPECT_LT(Clock::Real().MonotonicSeconds() - start, 10.0);
      group[rank]->Abort(absl::InternalError("a later reason"));
      EXPECT_EQ(group[rank]->AllReduce({data.data(), device::DType::kF32}, 1, "u").Wait(), reason);
    });
    group.resize(2);  // rank 2 dies first, the others follow one by one
    group[0].reset();
    group[1].reset();
  }
}

// After an abort nothing that the operation posted may write: the buffer belongs to its owner again, whatever a peer
// that does not know of the abort still sends.
TEST_P(LifeTest, ABufferIsItsOwnersAfterAnAbort) {
  for (int64_t count : {100, 200'000}) {  // a message sent at once, and one fetched by the receiver
    Group group = CreateGroup(2);
    const Watchdog watchdog(group);
    std::vector<std::vector<float>> buffers(2, std::vector<float>(2 * count));
    const auto gather = [&](int rank) {
      return group[rank]->AllGather({}, {buffers[rank].data(), device::DType::kF32}, 2 * count, "u");
    };
    OnEveryRank(2, [&](int rank) { EXPECT_EQ(gather(rank).Wait(), absl::OkStatus()); });  // connects the ranks
    const absl::Status reason = absl::UnavailableError("a rank is gone");
    const auto aborted = gather(0);
    AwaitStarted(*group[0], 2);
    group[0]->Abort(reason);
    EXPECT_EQ(aborted.Wait(), reason);
    buffers[0].assign(2 * count, 7.0f);
    const auto late = gather(1);
    AwaitStarted(*group[1], 2);
    group[0].reset();
    group[1]->Abort(reason);
    late.Wait().IgnoreError();
    group[1].reset();
    EXPECT_THAT(buffers[0], testing::Each(7.0f)) << count;
  }
}

// The first operation connects the ranks. An abort may come before, during or after that.
TEST_P(LifeTest, AbortMayComeAtAnyMomentOfTheFirstOperation) {
  const absl::Status reason = absl::UnavailableError("rank 2 is gone");
  for (int round = 0; round < 20; round++) {
    Group group = CreateGroup(3);
    const Watchdog watchdog(group);
    OnEveryRank(3, [&](int rank) {
      std::vector<float> data(100'000);
      const auto pending = group[rank]->AllReduce({data.data(), device::DType::kF32}, 100'000, "u");
      absl::SleepFor(round * absl::Microseconds(150));
      group[rank]->Abort(reason);
      const absl::Status status = pending.Wait();  // another rank may have left before this one's own abort
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    });
    Destroy(group);
  }
}

TEST_P(LifeTest, ARankThatFinishesFirstMayLeaveAtOnce) {
  for (int round = 0; round < 20; round++) {
    Group group = CreateGroup(3);
    const Watchdog watchdog(group);
    OnEveryRank(3, [&](int rank) {
      const int64_t count = round % 2 == 0 ? 100 : 200'000;
      std::vector<float> data(count, static_cast<float>(rank));
      EXPECT_EQ(group[rank]->AllReduce({data.data(), device::DType::kF32}, count, "u").Wait(), absl::OkStatus());
      EXPECT_EQ(group[rank]->AllGather({}, {data.data(), device::DType::kF32}, count, "u").Wait(), absl::OkStatus());
      group[rank].reset();
      EXPECT_EQ(std::count(data.begin(), data.end(), 3.0f), count);
    });
  }
}

TEST_P(LifeTest, RanksThatDisagreeOnTheScheduleAreTold) {
  Group group = CreateGroup(2);
  const Watchdog watchdog(group);
  std::vector<float> data(100), other(100);
  const auto pending = group[0]->AllGather({}, {data.data(), device::DType::kF32}, 100, "u");
  const auto longer = group[1]->AllGather({}, {other.data(), device::DType::kF32}, 50, "u");
  EXPECT_EQ(pending.Wait().code(), absl::StatusCode::kInternal) << pending.Wait();
  group[1]->Abort(absl::UnavailableError("rank 0 failed"));
  longer.Wait().IgnoreError();
  Destroy(group);
}

INSTANTIATE_TEST_SUITE_P(Backends, LifeTest, testing::ValuesIn(BackendNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace zerofleet::collective
