// The installed cuDNN accepts the attention graphs, node by node and whole. This needs no GPU.
#include "worker/device/cuda/attention_graph.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/libraries/vendor_library.h"

namespace zerofleet::device::cuda {
namespace {

using ::testing::Combine;
using ::testing::Values;

// Why the installed cuDNN cannot check graphs; empty if it can. cuDNN loads its sublibraries by itself, and a toolkit
// installed for compiling may lack some of them.
std::string WhyNoGraphs() {
  const absl::Status opened = OpenCudnn();
  if (!opened.ok()) return std::string(opened.message());
  const absl::Status checked = AttentionForwardGraph(nullptr, {2, 36, 4, 64}, 4, DType::kBF16).status();
  return absl::StrContains(checked.message(), "SUBLIBRARY_LOADING_FAILED") ? std::string(checked.message()) : "";
}

struct PartOfRow {
  AttentionShape part;
  int64_t row_heads;
};

class AttentionGraphTest : public ::testing::TestWithParam<std::tuple<PartOfRow, DType>> {};

TEST_P(AttentionGraphTest, IsAccepted) {
  if (const std::string why = WhyNoGraphs(); !why.empty()) GTEST_SKIP() << why;
  const auto& [shape, dtype] = GetParam();
  EXPECT_EQ(AttentionForwardGraph(nullptr, shape.part, shape.row_heads, dtype).status(), absl::OkStatus());
  EXPECT_EQ(AttentionBackwardGraph(nullptr, shape.part, shape.row_heads, dtype).status(), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionGraphTest,
                         Combine(Values(PartOfRow{{16, 1024, 25, 64}, 25}, PartOfRow{{1, 4096, 3, 64}, 25},
                                        PartOfRow{{3, 33, 5, 40}, 5}, PartOfRow{{1, 2, 1, 256}, 1}),
                                 Values(DType::kBF16, DType::kF16)));

TEST(AttentionGraph, RowsAreAlignedWhereEveryHeadStartsAt16Bytes) {
  EXPECT_EQ(RowsAlignment(1024), 16);
  EXPECT_EQ(RowsAlignment(36), 16);
  EXPECT_EQ(RowsAlignment(33), 4);
  EXPECT_EQ(RowsAlignment(34), 4);
}

TEST(CudnnDescriptorTest, KeepsItsFirstFailureAndNamesItself) {
  if (!OpenCudnn().ok()) GTEST_SKIP() << OpenCudnn().message();
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor without a shape");
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t{1}).Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  tensor.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  const absl::Status status = tensor.Finalize();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.message().substr(0, 24), "a tensor without a shape");
}

TEST(CudnnGpuTest, RefusesADescriptionWithoutTheGpusProperties) {
  if (!OpenCudnn().ok()) GTEST_SKIP() << OpenCudnn().message();
  const absl::Status status = CudnnGpu::Described(R"({"deviceName": "H100"})").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StartsWith(status.message(), "cuDNN's description of a GPU")) << status.message();
}

TEST(CudnnStatusTest, SaysWhoseFaultItIs) {
  EXPECT_TRUE(CudnnStatus(CUDNN_STATUS_SUCCESS, "call").ok());
  EXPECT_EQ(CudnnStatus(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "call").code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CudnnStatus(CUDNN_STATUS_NOT_INITIALIZED, "call").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CudnnStatus(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, "call").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CudnnStatus(CUDNN_STATUS_BAD_PARAM, "call").code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace zerofleet::device::cuda
