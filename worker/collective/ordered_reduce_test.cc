// The messages that a reduction posts to its transport; collective_test.cc checks its results.
#include "worker/collective/ordered_reduce.h"

#include <vector>

#include "gtest/gtest.h"

namespace zerofleet::collective {
namespace {

class CountingTransport : public ExchangeTransport {
 public:
  absl::Status Post(int64_t, const Messages& messages) override {
    EXPECT_TRUE(messages.incoming.empty() && messages.outgoing.empty());
    return absl::OkStatus();
  }
  absl::Status Arrive(int64_t) override { return absl::OkStatus(); }
  void Sum(std::span<const void* const>, device::DType, device::Tensor, int64_t, const float*) override { ++sums; }
  absl::Status Release(int64_t) override { return absl::OkStatus(); }

  int sums = 0;
};

TEST(OrderedReduce, AGroupOfOneInPlaceHasNothingToAdd) {
  OrderedReduce reduce(Topology(0, 1), {.scratch_bytes = 0, .chunk_bytes = 1 << 20}, nullptr);
  std::vector<float> full(8), apart(8);
  CountingTransport transport;
  const device::Tensor whole = {full.data(), device::DType::kF32};
  ASSERT_EQ(reduce.Run(transport, whole, whole, 8), absl::OkStatus());
  EXPECT_EQ(transport.sums, 0);
  ASSERT_EQ(reduce.Run(transport, whole, {apart.data(), device::DType::kF32}, 8), absl::OkStatus());
  EXPECT_GT(transport.sums, 0) << "what is elsewhere has to be moved";
  transport.sums = 0;
  ASSERT_EQ(reduce.Run(transport, whole, {full.data(), device::DType::kBF16}, 8), absl::OkStatus());
  EXPECT_GT(transport.sums, 0) << "another type has to be rounded to";
}

}  // namespace
}  // namespace zerofleet::collective
