// EnqueueSumInOrder on the emulated GPU: the order of summation, any number of ranks, and a result that overwrites an
// input.
#include "worker/device/cuda/sum_in_order.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/cuda/test_tensor.h"

namespace zerofleet::device::cuda {
namespace {

// The definition: left to right in fp32, then one rounding.
std::vector<float> InOrder(const std::vector<TestTensor>& ranks, DType to_dtype) {
  TestTensor rounded(1, ranks[0].count(), to_dtype, 0);
  for (int64_t i = 0; i < ranks[0].count(); ++i) {
    float sum = ranks[0].Get(i);
    for (size_t rank = 1; rank < ranks.size(); ++rank) sum += ranks[rank].Get(i);
    rounded.Set(i, sum);
  }
  return rounded.Values();
}

struct SumCase {
  int ranks;
  int64_t count, skip, skip_to;
};

class SumInOrderTest : public ::testing::Test {
 protected:
  static std::vector<TestTensor> Ranks(const SumCase& c, DType dtype) {
    std::vector<TestTensor> ranks;
    for (int rank = 0; rank < c.ranks; ++rank) ranks.emplace_back(1, c.count, dtype, rank + 1, 0, c.skip);
    return ranks;
  }
  void Sum(const std::vector<TestTensor>& ranks, Tensor to) {
    std::vector<const void*> pointers;
    for (const TestTensor& rank : ranks) pointers.push_back(rank.tensor().data);
    EnqueueSumInOrder(*stream_, pointers, ranks[0].dtype(), to, ranks[0].count());
    ASSERT_TRUE(stream_->Synchronize().ok());
  }

  std::unique_ptr<CudaStream> stream_ = CudaStream::Create(0).value();
};

TEST_F(SumInOrderTest, AddsLeftToRightForAnyNumberOfRanks) {
  constexpr SumCase kCases[] = {{1, 1, 0, 0},   {2, 7, 0, 0},    {3, 1000, 1, 0}, {5, 1001, 3, 3},
                                {16, 40, 0, 1}, {17, 999, 0, 0}, {300, 33, 0, 0}, {4000, 3, 0, 0}};
  for (const SumCase& c : kCases) {
    for (const DType dtype : kTestTypes) {
      for (const DType to_dtype : kTestTypes) {
        const std::vector<TestTensor> ranks = Ranks(c, dtype);
        const TestTensor to(1, c.count, to_dtype, 99, 0, c.skip_to);
        Sum(ranks, to.tensor());
        ASSERT_EQ(to.Values(), InOrder(ranks, to_dtype)) << c.ranks << " ranks, " << c.count << " elements";
      }
    }
  }
}

TEST_F(SumInOrderTest, ASumGoesOnFromAnotherInItsPlace) {
  for (const SumCase& c : {SumCase{1, 1, 0, 0}, {3, 1001, 0, 0}, {2, 1001, 1, 1}, {17, 999, 0, 3}}) {
    for (const DType dtype : kTestTypes) {
      const std::vector<TestTensor> ranks = Ranks(c, dtype);
      const TestTensor to(1, c.count, DType::kF32, 99, 0, c.skip_to);
      std::vector<float> want = to.Values();
      for (const TestTensor& rank : ranks) {
        for (int64_t i = 0; i < c.count; ++i) want[i] += rank.Get(i);
      }
      std::vector<const void*> pointers;
      for (const TestTensor& rank : ranks) pointers.push_back(rank.tensor().data);
      EnqueueSumInOrder(*stream_, pointers, dtype, to.tensor(), c.count, static_cast<const float*>(to.tensor().data));
      ASSERT_TRUE(stream_->Synchronize().ok());
      ASSERT_EQ(to.Values(), want) << c.ranks << " ranks, " << c.count << " elements";
    }
  }
}

TEST_F(SumInOrderTest, NothingIsNothing) {
  const std::vector<TestTensor> ranks = Ranks({2, 0, 0, 0}, DType::kF32);
  Sum(ranks, {ranks[0].tensor().data, DType::kF32});
}

// Counts that end inside, at and past each launch that narrows in place.
TEST_F(SumInOrderTest, TheResultMayTakeAnInputsPlace) {
  for (const int64_t count : {1, 1000, 8192, 8193, 16384, 16385}) {
    for (const DType dtype : kTestTypes) {
      for (const DType to_dtype : kTestTypes) {
        if (DTypeBytes(to_dtype) > DTypeBytes(dtype)) continue;
        for (const int in_place : {0, 2}) {
          const std::vector<TestTensor> ranks = Ranks({3, count, 1, 0}, dtype);
          const std::vector<float> want = InOrder(ranks, to_dtype);
          Sum(ranks, {ranks[in_place].tensor().data, to_dtype});
          TestTensor got(1, count, to_dtype, 0);
          std::memcpy(got.tensor().data, ranks[in_place].tensor().data, count * DTypeBytes(to_dtype));
          ASSERT_EQ(got.Values(), want) << count;
        }
      }
    }
  }
}

using SumInOrderDeathTest = SumInOrderTest;

TEST_F(SumInOrderDeathTest, AWiderResultMayNot) {
  const std::vector<TestTensor> ranks = Ranks({2, 10, 0, 0}, DType::kBF16);
  EXPECT_DEATH(Sum(ranks, {ranks[0].tensor().data, DType::kF32}), "in_place");
}

}  // namespace
}  // namespace zerofleet::device::cuda
