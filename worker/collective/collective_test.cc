// The conformance suite of the collective backends: every backend gives exactly the bits of a serial sum in rank
// order, counts exactly the bytes of the algorithm, and gives up when told to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "worker/collective/conformance.h"
#include "worker/collective/in_process.h"
#include "worker/collective/ucx.h"
#include "worker/collective/watchdog_testing.h"

namespace zerofleet {
namespace {

using Bytes = std::vector<std::byte>;

Group CreateUcxGroup(const std::string& group, int size) {
  std::vector<std::unique_ptr<UcxEndpoint>> endpoints;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < size; rank++) {
    absl::StatusOr<std::unique_ptr<UcxEndpoint>> endpoint = UcxEndpoint::Create();
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    addresses.push_back((*endpoint)->address());
    endpoints.push_back(*std::move(endpoint));
  }
  Group communicators;
  for (int rank = 0; rank < size; rank++) {
    auto communicator = endpoints[rank]->Join({.name = group, .rank = rank, .addresses = addresses});
    EXPECT_TRUE(communicator.ok()) << communicator.status();
    communicators.push_back(*std::move(communicator));
  }
  return communicators;
}

const AddConformanceBackend in_process("in_process", CreateInProcessGroup);
const AddConformanceBackend ucx("ucx", CreateUcxGroup);

Group CreateGroup(const std::string& backend, int size) { return ConformanceBackends().at(backend)("data", size); }

// Asked when the tests are listed, after every file has added its backends.
std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : ConformanceBackends()) names.push_back(name);
  return names;
}

// Destroys every communicator on its own thread, as processes would.
void Destroy(Group& group) {
  std::vector<std::thread> threads;
  for (auto& communicator : group) threads.emplace_back([&communicator] { communicator.reset(); });
  for (std::thread& thread : threads) thread.join();
}

template <typename T>
void Put(T value, Bytes& bytes, int64_t i) {
  std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
}

void PutElement(float value, Bytes& bytes, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32: return Put(value, bytes, i);
    case DType::kBF16: return Put(ToBF16(value), bytes, i);
    case DType::kF16: return Put(ToF16(value), bytes, i);
  }
}

template <typename T>
float Get(const Bytes& bytes, int64_t i) {
  T value;
  std::memcpy(&value, &bytes[i * sizeof value], sizeof value);
  return ToFloat(value);
}

float Element(const Bytes& bytes, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32: return Get<float>(bytes, i);
    case DType::kBF16: return Get<BF16>(bytes, i);
    case DType::kF16: return Get<F16>(bytes, i);
  }
  return 0;
}

// Values whose sum depends on the order of summation.
Bytes Values(int64_t count, DType dtype, int seed) {
  std::mt19937 random(seed);
  Bytes bytes(count * DTypeBytes(dtype));
  for (int64_t i = 0; i < count; i++) {
    const float value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-30f;
    PutElement(value * (i % 3 == 0 ? 1e4f : 1e-2f), bytes, dtype, i);
  }
  return bytes;
}

// The reference: a serial sum in rank order, in fp32, rounded once.
Bytes SerialSum(const std::vector<Bytes>& inputs, DType dtype, DType to, int64_t count) {
  Bytes sum(count * DTypeBytes(to));
  for (int64_t i = 0; i < count; i++) {
    float total = Element(inputs[0], dtype, i);
    for (size_t rank = 1; rank < inputs.size(); rank++) total += Element(inputs[rank], dtype, i);
    PutElement(total, sum, to, i);
  }
  return sum;
}

Bytes Slice(const Bytes& bytes, const Range& range, int64_t element_bytes) {
  return Bytes(bytes.begin() + range.begin * element_bytes, bytes.begin() + range.end * element_bytes);
}

class ConformanceTest : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  std::string backend() const { return std::get<0>(GetParam()); }
  int size() const { return std::get<1>(GetParam()); }
  // The last is more than two pipeline chunks of a part for the small groups, more than one for the large ones, whose
  // chunks are shorter.
  std::vector<int64_t> Counts() const {
    const int64_t of_part = size() < 8 ? 150'001 : size() < 16 ? 70'001 : 40'001;
    return {0, 1, 7, 64, 1000, 4099, of_part * size()};
  }
};

TEST_P(ConformanceTest, AllGatherPutsEveryPartInPlace) {
  Group group = CreateGroup(backend(), size());
  const Watchdog watchdog(group);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (int64_t count : Counts()) {
      const Bytes whole = Values(count, dtype, 1);
      std::vector<Bytes> separate(size(), Bytes(whole.size())), in_place = separate;
      OnEveryRank(size(), [&](int rank) {
        const Range mine = ShardRange(count, size(), rank);
        const Bytes part = Slice(whole, mine, DTypeBytes(dtype));
        ASSERT_EQ(group[rank]->AllGather(part.data(), separate[rank].data(), count, dtype, "u").Wait(),
                  absl::OkStatus());
        std::copy(part.begin(), part.end(), in_place[rank].begin() + mine.begin * DTypeBytes(dtype));
        ASSERT_EQ(group[rank]->AllGather(nullptr, in_place[rank].data(), count, dtype, "u").Wait(), absl::OkStatus());
      });
      EXPECT_THAT(separate, testing::Each(whole)) << count;
      EXPECT_THAT(in_place, testing::Each(whole)) << count;
    }
  }
  Destroy(group);
}

TEST_P(ConformanceTest, ReduceScatterGivesTheBitsOfASerialSumInRankOrder) {
  Group group = CreateGroup(backend(), size());
  const Watchdog watchdog(group);
  const std::vector<std::pair<DType, DType>> types = {{DType::kF32, DType::kF32},  {DType::kBF16, DType::kBF16},
                                                      {DType::kF16, DType::kF16},  {DType::kF32, DType::kBF16},
                                                      {DType::kBF16, DType::kF32}, {DType::kF16, DType::kF32}};
  for (auto [from, to] : types) {
    for (int64_t count : Counts()) {
      std::vector<Bytes> inputs, shards;
      for (int rank = 0; rank < size(); rank++) {
        inputs.push_back(Values(count, from, rank + 10));
        shards.push_back(Bytes(ShardRange(count, size(), rank).size() * DTypeBytes(to)));
      }
      const Bytes sum = SerialSum(inputs, from, to, count);
      OnEveryRank(size(), [&, from = from, to = to](int rank) {
        const auto reduced = group[rank]->ReduceScatter(inputs[rank].data(), from, shards[rank].data(), to, count, "u");
        ASSERT_EQ(reduced.Wait(), absl::OkStatus());
      });
      for (int rank = 0; rank < size(); rank++) {
        EXPECT_TRUE(shards[rank] == Slice(sum, ShardRange(count, size(), rank), DTypeBytes(to)))
            << "count " << count << ", rank " << rank << ", " << DTypeName(from) << " to " << DTypeName(to);
      }
    }
  }
  Destroy(group);
}

TEST_P(ConformanceTest, ReduceScatterMayWriteIntoItsPlace) {
  Group group = CreateGroup(backend(), size());
  const Watchdog watchdog(group);
  for (DType to : {DType::kF32, DType::kBF16}) {
    const int64_t count = Counts().back();
    std::vector<Bytes> inputs;
    for (int rank = 0; rank < size(); rank++) inputs.push_back(Values(count, DType::kF32, rank));
    const Bytes sum = SerialSum(inputs, DType::kF32, to, count);
    OnEveryRank(size(), [&](int rank) {
      const Range mine = ShardRange(count, size(), rank);
      std::byte* place = inputs[rank].data() + mine.begin * 4;
      ASSERT_EQ(group[rank]->ReduceScatter(inputs[rank].data(), DType::kF32, place, to, count, "u").Wait(),
                absl::OkStatus());
      EXPECT_EQ(std::memcmp(place, &sum[mine.begin * DTypeBytes(to)], mine.size() * DTypeBytes(to)), 0);
    });
  }
  Destroy(group);
}

TEST_P(ConformanceTest, AllReduceGivesEveryRankTheSerialSum) {
  Group group = CreateGroup(backend(), size());
  const Watchdog watchdog(group);
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (int64_t count : Counts()) {
      std::vector<Bytes> data;
      for (int rank = 0; rank < size(); rank++) data.push_back(Values(count, dtype, rank + 30));
      const Bytes sum = SerialSum(data, dtype, dtype, count);
      OnEveryRank(size(), [&](int rank) {
        ASSERT_EQ(group[rank]->AllReduce(data[rank].data(), count, dtype, "u").Wait(), absl::OkStatus());
      });
      EXPECT_THAT(data, testing::Each(testing::Truly([&](const Bytes& one) { return one == sum; }))) << count;
    }
  }
  Destroy(group);
}

TEST_P(ConformanceTest, BroadcastAndRawBytesReachEveryRank) {
  Group group = CreateGroup(backend(), size());
  const Watchdog watchdog(group);
  for (int root = 0; root < size(); root += size() < 8 ? 1 : 5) {
    for (int64_t bytes : {0, 1, 1000, 300'001}) {
      const Bytes sent = Slice(Values(bytes / 4 + 1, DType::kF32, root), {0, bytes}, 1);
      std::vector<Bytes> data(size(), Bytes(bytes)), all(size(), Bytes(bytes * size()));
      data[root] = sent;
      OnEveryRank(size(), [&](int rank) {
        ASSERT_EQ(group[rank]->Broadcast(data[rank].data(), bytes, root, "u").Wait(), absl::OkStatus());
        ASSERT_EQ(group[rank]->AllGatherBytes(data[rank].data(), all[rank].data(), bytes, "u").Wait(),
                  absl::OkStatus());
      });
      Bytes repeated;
      for (int rank = 0; rank < size(); rank++) repeated.insert(repeated.end(), sent.begin(), sent.end());
      EXPECT_THAT(data, testing::Each(testing::Truly([&](const Bytes& one) { return one == sent; })));
      EXPECT_THAT(all, testing::Each(testing::Truly([&](const Bytes& one) { return one == repeated; })));
    }
  }
  Destroy(group);
}

// Operations posted ahead run in order, whatever the ranks' speeds.
TEST_P(ConformanceTest, PostedOperationsOverlapAndStayInOrder) {
  Group group = CreateGroup(backend(), size());
  const Watchdog watchdog(group);
  constexpr int kOperations = 40;
  std::vector<std::vector<std::vector<float>>> data(size());
  OnEveryRank(size(), [&](int rank) {
    data[rank].resize(kOperations);
    std::vector<Communicator::Pending> pending;
    for (int i = 0; i < kOperations; i++) {
      data[rank][i].assign(1 + i * 37, static_cast<float>(rank + i));
      pending.push_back(group[rank]->AllReduce(data[rank][i].data(), 1 + i * 37, DType::kF32, "u"));
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

TEST_P(ConformanceTest, TotalsCountExactlyTheBytesSent) {
  Group group = CreateGroup(backend(), size());
  const Watchdog watchdog(group);
  const int64_t count = 1003;
  std::vector<int64_t> broadcast(size());
  OnEveryRank(size(), [&](int rank) {
    Communicator& communicator = *group[rank];
    int64_t observed = 0;
    communicator.SetObserver([&](const CollectiveRecord& record) { observed += record.sent_bytes; });
    std::vector<float> full(count, 1), shard(count);
    std::vector<BF16> small(count);
    ASSERT_EQ(communicator.ReduceScatter(full.data(), DType::kF32, shard.data(), DType::kF32, count, "u").Wait(),
              absl::OkStatus());
    ASSERT_EQ(communicator.AllGather(nullptr, small.data(), count, DType::kBF16, "u").Wait(), absl::OkStatus());
    ASSERT_EQ(communicator.AllReduce(full.data(), count, DType::kF32, "u").Wait(), absl::OkStatus());
    ASSERT_EQ(communicator.Broadcast(full.data(), 40, 0, "u").Wait(), absl::OkStatus());
    const int64_t mine = ShardRange(count, size(), rank).size();
    const int64_t scattered = count - mine, gathered = mine * (size() - 1);
    std::map<Operation, CollectiveTotals> totals = communicator.totals();
    EXPECT_EQ(totals[Operation::kReduceScatter].bytes, scattered * 4);
    EXPECT_EQ(totals[Operation::kAllGather].bytes, gathered * 2);
    EXPECT_EQ(totals[Operation::kAllReduce].bytes, (scattered + gathered) * 4);
    EXPECT_EQ(totals[Operation::kReduceScatter].calls, 1);
    EXPECT_EQ(totals[Operation::kAllGather].gathered_bytes, count * 2);
    EXPECT_EQ(totals[Operation::kReduceScatter].gathered_bytes, count * 4);
    EXPECT_GT(totals[Operation::kAllReduce].seconds, 0);
    broadcast[rank] = totals[Operation::kBroadcast].bytes;
    EXPECT_EQ(observed, scattered * 8 + gathered * 6 + broadcast[rank]);
  });
  EXPECT_EQ(std::accumulate(broadcast.begin(), broadcast.end(), int64_t{0}), 40 * (size() - 1));
  Destroy(group);
}

INSTANTIATE_TEST_SUITE_P(Backends, ConformanceTest,
                         testing::Combine(testing::ValuesIn(BackendNames()), testing::Values(1, 2, 3, 4, 5, 8, 16)),
                         [](const auto& test) {
                           return absl::StrCat(std::get<0>(test.param), std::get<1>(test.param));
                         });

class LifeTest : public testing::TestWithParam<std::string> {};

// Waits until the operation is under way, on the progress that the coordinator sees too.
void AwaitStarted(const Communicator& communicator, uint64_t sequence) {
  while (communicator.progress().sequence < sequence) std::this_thread::yield();
}

TEST_P(LifeTest, ProgressNamesTheOperationThatWaits) {
  Group group = CreateGroup(GetParam(), 2);
  const Watchdog watchdog(group);
  std::vector<float> data(10), other(10);
  const auto pending = group[0]->AllReduce(data.data(), 10, DType::kF32, "block 3");
  AwaitStarted(*group[0], 1);
  const CollectiveProgress progress = group[0]->progress();
  EXPECT_EQ(progress.group, "data");
  EXPECT_EQ(progress.sequence, 1u);
  EXPECT_EQ(progress.completed, 0u);
  EXPECT_EQ(progress.operation, Operation::kAllReduce);
  EXPECT_EQ(progress.unit, "block 3");
  EXPECT_EQ(group[1]->progress().sequence, 0u);
  EXPECT_EQ(group[1]->AllReduce(other.data(), 10, DType::kF32, "block 3").Wait(), absl::OkStatus());
  EXPECT_EQ(pending.Wait(), absl::OkStatus());
  EXPECT_EQ(group[0]->progress().completed, 1u);
  Destroy(group);
}

TEST_P(LifeTest, ARankThatNeverComesIsFoundByTheWatchdog) {
  const auto wait_for_ever = [] {
    Group group = CreateGroup(GetParam(), 2);
    std::vector<float> data(10);
    const Watchdog watchdog(
        [&group] {
          AwaitStarted(*group[0], 1);
          return DescribeProgress(group);
        },
        absl::ZeroDuration());
    group[0]->AllReduce(data.data(), 10, DType::kF32, "block.3").Wait().IgnoreError();
  };
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(wait_for_ever(), "stuck: rank 0 is in all_reduce #1 of block.3; rank 1 has completed 0 and is in none");
}

TEST_P(LifeTest, AbortEndsTheWaitForARankThatNeverComes) {
  for (int64_t count : {10, 1'000'000}) {
    Group group = CreateGroup(GetParam(), 3);
    const Watchdog watchdog(group);
    const absl::Status reason = absl::UnavailableError("rank 2 is gone");
    OnEveryRank(2, [&](int rank) {
      std::vector<float> data(count), more(count);
      const auto first = group[rank]->AllReduce(data.data(), count, DType::kF32, "u");
      const auto second = group[rank]->AllGather(nullptr, more.data(), count, DType::kF32, "u");
      AwaitStarted(*group[rank], 1);
      const double start = Clock::Real().MonotonicSeconds();
      group[rank]->Abort(reason);
      EXPECT_EQ(first.Wait(), reason);
      EXPECT_EQ(second.Wait(), reason);
      EXPECT_LT(Clock::Real().MonotonicSeconds() - start, 10.0);
      group[rank]->Abort(absl::InternalError("a later reason"));
      EXPECT_EQ(group[rank]->Broadcast(data.data(), 4, 0, "u").Wait(), reason);
    });
    group.resize(2);  // rank 2 dies first, the others follow one by one
    group[0].reset();
    group[1].reset();
  }
}

// What an aborted operation has posted may no longer write: the buffer belongs to its owner again, whatever a peer that
// has not heard of the abort still sends.
TEST_P(LifeTest, ABufferIsItsOwnersAfterAnAbort) {
  for (int64_t count : {100, 200'000}) {  // sent at once, and fetched by the receiver
    Group group = CreateGroup(GetParam(), 2);
    const Watchdog watchdog(group);
    std::vector<std::vector<float>> buffers(2, std::vector<float>(2 * count));
    const auto gather = [&](int rank) {
      return group[rank]->AllGather(nullptr, buffers[rank].data(), 2 * count, DType::kF32, "u");
    };
    OnEveryRank(2, [&](int rank) { EXPECT_EQ(gather(rank).Wait(), absl::OkStatus()); });  // connects them
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

// The first operation connects the ranks: an abort may come before, while or after they do.
TEST_P(LifeTest, AbortMayComeAtAnyMomentOfTheFirstOperation) {
  const absl::Status reason = absl::UnavailableError("rank 2 is gone");
  for (int round = 0; round < 20; round++) {
    Group group = CreateGroup(GetParam(), 3);
    const Watchdog watchdog(group);
    OnEveryRank(3, [&](int rank) {
      std::vector<float> data(100'000);
      const auto pending = group[rank]->AllReduce(data.data(), 100'000, DType::kF32, "u");
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
    Group group = CreateGroup(GetParam(), 3);
    const Watchdog watchdog(group);
    OnEveryRank(3, [&](int rank) {
      const int64_t count = round % 2 == 0 ? 100 : 200'000;
      std::vector<float> data(count, static_cast<float>(rank));
      EXPECT_EQ(group[rank]->AllReduce(data.data(), count, DType::kF32, "u").Wait(), absl::OkStatus());
      EXPECT_EQ(group[rank]->Broadcast(data.data(), count, round % 3, "u").Wait(), absl::OkStatus());
      group[rank].reset();
      EXPECT_EQ(std::count(data.begin(), data.end(), 3.0f), count);
    });
  }
}

TEST_P(LifeTest, RanksThatDisagreeOnTheScheduleAreTold) {
  Group group = CreateGroup(GetParam(), 2);
  const Watchdog watchdog(group);
  std::vector<float> data(100), other(100);
  const auto pending = group[0]->Broadcast(data.data(), 400, 1, "u");
  const auto longer = group[1]->Broadcast(other.data(), 200, 1, "u");
  EXPECT_EQ(pending.Wait().code(), absl::StatusCode::kInternal) << pending.Wait();
  group[1]->Abort(absl::UnavailableError("rank 0 failed"));
  longer.Wait().IgnoreError();
  Destroy(group);
}

INSTANTIATE_TEST_SUITE_P(Backends, LifeTest, testing::ValuesIn(BackendNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace zerofleet
