// What the vendor's libraries refuse is reported once for each op and shape. The emulation has no cuDNN, and its
// cuBLASLt has epilogues or not as the test says.
#include "worker/device/cuda/refused_shapes.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/emulation/cublaslt.h"
#include "worker/device/cuda/test_tensor.h"

namespace zerofleet::device::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RefusedShapesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    emulation::cublaslt() = {};
    stream_ = CudaStream::Create(0).value();
    ops_ = CudaOps::Create().value();
  }
  void TearDown() override {
    EXPECT_EQ(stream_->Synchronize(), absl::OkStatus());
    emulation::cublaslt() = {};
  }

  void Linear(int64_t rows) {
    const TestTensor x(rows, 8, DType::kBF16, 1), w(16, 8, DType::kBF16, 2), bias(1, 16, DType::kBF16, 3);
    const TestTensor y(rows, 16, DType::kBF16, 4);
    ops_->LinearForward(*stream_, {.m = rows,
                                   .n = 16,
                                   .k = 8,
                                   .x = x.tensor(),
                                   .w = w.tensor(),
                                   .bias = bias.tensor(),
                                   .residual = {},
                                   .y = y.tensor()});
  }

  std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<CudaOps> ops_;
};

TEST_F(RefusedShapesTest, EachDirectionOfAttention) {
  const AttentionShape shape = {.batch = 2, .time = 4, .heads = 3, .head_size = 6};
  const TestTensor qkv(8, 54, DType::kBF16, 1), out(8, 18, DType::kBF16, 2), dout(8, 18, DType::kBF16, 3);
  const TestTensor dqkv(8, 54, DType::kBF16, 4);
  std::vector<float> logsumexp(24), scratch(24);
  for (int time = 0; time < 2; ++time) {
    ops_->AttentionForward(*stream_, {.shape = shape,
                                      .qkv = qkv.tensor(),
                                      .out = out.tensor(),
                                      .logsumexp = logsumexp.data(),
                                      .scratch = scratch.data()});
    ops_->AttentionBackward(*stream_, {.shape = shape,
                                       .qkv = qkv.tensor(),
                                       .out = out.tensor(),
                                       .logsumexp = logsumexp.data(),
                                       .dout = dout.tensor(),
                                       .dqkv = dqkv.tensor(),
                                       .scratch = scratch.data()});
  }
  const std::vector<RefusedShape> refused = ops_->TakeRefusedShapes();
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].op, "AttentionForward");
  EXPECT_EQ(refused[0].shape, "bf16, 2 x 3 heads x 4 x 6");
  EXPECT_THAT(refused[0].reason, HasSubstr("multiples of 8"));
  EXPECT_EQ(refused[1].op, "AttentionBackward");
  EXPECT_THAT(ops_->TakeRefusedShapes(), IsEmpty());
}

// The same shape without documents is fused.
TEST_F(RefusedShapesTest, DocumentsInASequence) {
  const AttentionShape shape = {.batch = 2, .time = 4, .heads = 3, .head_size = 8};
  const TestTensor qkv(8, 72, DType::kBF16, 1), out(8, 24, DType::kBF16, 2);
  std::vector<float> logsumexp(24), scratch(24);
  const std::vector<int32_t> starts = {0, 0, 2, 2, 0, 1, 1, 1};
  for (const int32_t* const documents : {static_cast<const int32_t*>(nullptr), starts.data()}) {
    EXPECT_THAT(ops_->TakeRefusedShapes(), IsEmpty());
    ops_->AttentionForward(*stream_, {.shape = shape,
                                      .qkv = qkv.tensor(),
                                      .out = out.tensor(),
                                      .logsumexp = logsumexp.data(),
                                      .scratch = scratch.data(),
                                      .starts = documents});
  }
  const std::vector<RefusedShape> refused = ops_->TakeRefusedShapes();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_THAT(refused[0].reason, HasSubstr("data.packing"));
}

TEST_F(RefusedShapesTest, EpiloguesThatTheLibraryDoesNotHave) {
  emulation::cublaslt().fused_epilogues = true;
  Linear(8);
  EXPECT_THAT(ops_->TakeRefusedShapes(), IsEmpty());
  emulation::cublaslt().fused_epilogues = false;
  Linear(24);
  Linear(24);
  const std::vector<RefusedShape> refused = ops_->TakeRefusedShapes();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].op, "LinearForward");
  EXPECT_EQ(refused[0].shape, "bf16, m 24, n 16, k 8");
  EXPECT_EQ(refused[0].reason, "cuBLASLt has no algorithm with the epilogue bias");
}

}  // namespace
}  // namespace zerofleet::device::cuda
