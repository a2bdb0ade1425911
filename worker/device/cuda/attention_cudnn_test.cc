// cuDNN's fused attention on a GPU supports the models' shapes, agrees with the tiled kernels however the batch is cut,
// and gives the same bits each time. Skipped where there is no GPU or no cuDNN.
#include "worker/device/cuda/attention_cudnn.h"

#include <algorithm>
#include <cmath>

#include "worker/device/conformance/device_fixture.h"
#include "worker/device/cuda/attention_tiled.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/workspace.h"

namespace zerofleet::device::cuda {
namespace {

// The results of forward and backward on the same inputs.
struct Results {
  std::vector<float> out, logsumexp, dqkv;
};

class FusedAttentionTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    auto device = CudaDevice::Create(0);
    if (!device.ok()) GTEST_SKIP() << device.status().message();
    device_ = std::move(device).value();
    const absl::Status status = Lend(kLibraryBytes);
    if (absl::IsUnimplemented(status)) GTEST_SKIP() << status.message();
    ASSERT_EQ(status, absl::OkStatus());
  }
  // Makes the fused attention with a workspace of this size.
  absl::Status Lend(int64_t workspace_bytes) {
    fused_.reset();
    workspace_ = device_->Reserve(workspace_bytes).value();
    auto fused = FusedAttention::Create(workspace_->data(), workspace_bytes);
    if (fused.ok()) fused_ = std::move(fused).value();
    return fused.status();
  }
  // The backward reads `out` and `logsumexp` from `forward`, or, where that is null, from its own forward.
  Results Run(const AttentionShape& s, bool fused, const Results* forward = nullptr);
  void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, double part);

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Reservation> workspace_;
  std::unique_ptr<FusedAttention> fused_;
};

Results FusedAttentionTest::Run(const AttentionShape& s, bool fused, const Results* forward) {
  const int64_t count = s.batch * s.time * s.heads * s.head_size, rows = s.batch * s.heads * s.time;
  const DeviceTensor qkv(*device_, Values(3 * count, 1, GetParam()), GetParam());
  const DeviceTensor dout(*device_, Values(count, 2, GetParam()), GetParam());
  const DeviceTensor out(*device_, std::vector<float>(count, 7.0f), GetParam());
  const DeviceTensor logsumexp(*device_, std::vector<float>(rows, 7.0f)), delta(*device_, std::vector<float>(rows));
  const DeviceTensor dqkv(*device_, std::vector<float>(3 * count, 7.0f), GetParam());
  const auto stream = device_->CreateStream().value();
  if (fused) {
    EXPECT_EQ(fused_->ForwardSupport(s, GetParam()), absl::OkStatus());
    EXPECT_EQ(fused_->BackwardSupport(s, GetParam()), absl::OkStatus());
    fused_->Forward(*stream, s, qkv.tensor(), out.tensor(), logsumexp.as());
  } else {
    TiledAttentionForward(*stream, s, qkv.tensor(), out.tensor(), logsumexp.as());
  }
  EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
  Results results{out.Read(*device_), logsumexp.Read(*device_), {}};
  const Results& kept = forward == nullptr ? results : *forward;
  const DeviceTensor kept_out(*device_, kept.out, GetParam()), kept_logsumexp(*device_, kept.logsumexp);
  if (fused) {
    fused_->Backward(*stream, s, qkv.tensor(), kept_out.tensor(), kept_logsumexp.as(), dout.tensor(), dqkv.tensor(),
                     delta.as());
  } else {
    TiledAttentionBackward(*stream, s, qkv.tensor(), kept_out.tensor(), kept_logsumexp.as(), dout.tensor(),
                           dqkv.tensor(), delta.as());
  }
  EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
  results.dqkv = dqkv.Read(*device_);
  return results;
}

// Expects each element within `part` of the largest element.
void FusedAttentionTest::ExpectNear(const std::vector<float>& got, const std::vector<float>& want, double part) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const float value : want) largest = std::max<double>(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], part * largest) << "element " << i;
}

TEST_P(FusedAttentionTest, TakesTheModelsShapes) {
  for (const AttentionShape& s : {AttentionShape{16, 1024, 12, 64},
                                  {16, 1024, 25, 64},
                                  {3, 1024, 25, 64},
                                  {2, 2048, 16, 128},
                                  {1, 4096, 25, 64}}) {
    EXPECT_EQ(fused_->ForwardSupport(s, GetParam()), absl::OkStatus()) << s.time << " " << s.head_size;
    EXPECT_EQ(fused_->BackwardSupport(s, GetParam()), absl::OkStatus()) << s.time << " " << s.head_size;
  }
}

TEST_P(FusedAttentionTest, LeavesTheRestToTheTiledKernels) {
  EXPECT_EQ(fused_->ForwardSupport({1, 64, 1, 64}, DType::kF32).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(fused_->ForwardSupport({1, 64, 1, 10}, GetParam()).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(fused_->BackwardSupport({2, 1, 1, 64}, GetParam()).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(fused_->BackwardSupport({1, 1 << 15, 1, 64}, GetParam()).code(), absl::StatusCode::kUnimplemented);
}

// 200 positions take 128 KiB of scores per head. The workspaces hold all sequences, two sequences, one, and three heads
// of one.
TEST_P(FusedAttentionTest, AgreesWithTiledHoweverTheBatchIsCut) {
  const AttentionShape s{5, 200, 7, 64};
  const Results want = Run(s, /*fused=*/false);
  const double part = GetParam() == DType::kBF16 ? 0x1p-7 : 0x1p-9;
  for (const int64_t heads : {40, 15, 7, 3}) {
    SCOPED_TRACE(::testing::Message() << "room for " << heads << " heads");
    ASSERT_EQ(Lend((heads << 17) + (64 << 10)), absl::OkStatus());
    const Results got = Run(s, /*fused=*/true, &want);
    ExpectNear(got.out, want.out, part);
    ExpectNear(got.logsumexp, want.logsumexp, 1e-5);
    ExpectNear(got.dqkv, want.dqkv, part);
  }
}

TEST_P(FusedAttentionTest, AgreesWithTiledAtOddShapes) {
  for (const AttentionShape& s : {AttentionShape{2, 7, 3, 8}, {1, 33, 5, 40}, {3, 130, 2, 80}, {1, 257, 2, 128}}) {
    SCOPED_TRACE(::testing::Message() << "T " << s.time << " D " << s.head_size);
    const Results want = Run(s, /*fused=*/false), got = Run(s, /*fused=*/true, &want);
    const double part = GetParam() == DType::kBF16 ? 0x1p-7 : 0x1p-9;
    ExpectNear(got.out, want.out, part);
    ExpectNear(got.logsumexp, want.logsumexp, 1e-5);
    ExpectNear(got.dqkv, want.dqkv, part);
  }
}

// Blocks of a sequence run concurrently and end in a different order each time, so a sum that depends on the order
// would differ.
TEST_P(FusedAttentionTest, GivesTheSameBitsEachTime) {
  const AttentionShape s{4, 1024, 6, 64};  // 192 blocks of 128 positions, more than a GPU has multiprocessors
  const Results first = Run(s, /*fused=*/true);
  for (int round = 0; round < 5; ++round) {
    const Results again = Run(s, /*fused=*/true);
    ASSERT_EQ(again.out, first.out);
    ASSERT_EQ(again.logsumexp, first.logsumexp);
    ASSERT_EQ(again.dqkv, first.dqkv);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FusedAttentionTest, ::testing::Values(DType::kBF16, DType::kF16),
                         [](const auto& info) { return DTypeName(info.param); });

}  // namespace
}  // namespace zerofleet::device::cuda
