// Products through the host version of cuBLASLt: every combination that the ops use, and what happens when the library
// refuses.
#include "worker/device/cuda/matmul.h"

#include "gtest/gtest.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/emulation/cublaslt.h"
#include "worker/device/cuda/test_tensor.h"

namespace zerofleet::device::cuda {
namespace {

struct Case {
  int64_t m, n, k;
  DType input, output;
  bool transpose_a = false, transpose_b = false, add = false, in_place = false;
  Epilogue epilogue = Epilogue::kNone;
  bool bias = false;
  int64_t spare = 3, skip = 0;
};

class MatmulTest : public ::testing::Test {
 protected:
  void SetUp() override {
    emulation::cublaslt() = {};
    stream_ = CudaStream::Create(0).value();
    matmul_ = Matmul::Create(workspace_.as<void>(), workspace_.count() * 4).value();
  }
  void TearDown() override { emulation::cublaslt() = {}; }

  // Runs the case. If it ran, checks everything that it writes, and that the spare columns are unchanged.
  bool Run(const Case& p);

  TestTensor workspace_{1, 4096, DType::kF32, 0};
  std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<Matmul> matmul_;
};

bool MatmulTest::Run(const Case& p) {
  const TestTensor a(p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.input, 1, p.spare, p.skip);
  const TestTensor b(p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.input, 2, p.spare, p.skip);
  const TestTensor c(p.m, p.n, p.output, 3, p.spare, p.skip), d(p.m, p.n, p.output, 3, p.spare, p.skip);
  const TestTensor aux(p.m, p.n, p.output, 4, p.spare), aux_before(p.m, p.n, p.output, 4, p.spare);
  const TestTensor bias(1, p.n, p.output, 5);
  MatmulArguments product{.m = p.m,
                          .n = p.n,
                          .k = p.k,
                          .a = {a.tensor(), a.stride(), p.transpose_a},
                          .b = {b.tensor(), b.stride(), p.transpose_b},
                          .d = {d.tensor(), d.stride()},
                          .epilogue = p.epilogue};
  if (p.add) product.c = {p.in_place ? d.tensor() : c.tensor(), c.stride()};
  if (p.bias) product.bias = bias.tensor();
  product.aux = {aux.tensor(), aux.stride()};
  const bool ran = matmul_->Run(*stream_, "Test", product);
  EXPECT_EQ(stream_->Synchronize(), absl::OkStatus());
  if (!ran) return false;
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      double want = (p.add ? c.At(row, column) : 0.0) + (p.bias ? bias.Get(column) : 0.0);
      for (int64_t i = 0; i < p.k; ++i) {
        want += static_cast<double>(p.transpose_a ? a.At(i, row) : a.At(row, i)) *
                (p.transpose_b ? b.At(column, i) : b.At(i, column));
      }
      if (p.epilogue == Epilogue::kGeluSlope) want *= ReferenceGeluSlope(aux_before.At(row, column));
      EXPECT_NEAR(d.At(row, column), want, Tolerance(p.output, want)) << row << ", " << column;
    }
    for (int64_t spare = p.n; spare < d.stride(); ++spare) EXPECT_EQ(d.At(row, spare), c.At(row, spare));
  }
  return true;
}

TEST_F(MatmulTest, TypesOrientationsAndAddends) {
  for (const DType input : kTestTypes) {
    for (const DType output : {input, DType::kF32}) {
      for (const bool transpose_a : {false, true}) {
        for (const bool transpose_b : {false, true}) {
          const Case plain{13, 7, 21, input, output, transpose_a, transpose_b};
          EXPECT_TRUE(Run(plain));
          Case added = plain;
          added.add = true;
          EXPECT_TRUE(Run(added));
          added.in_place = true;
          EXPECT_TRUE(Run(added));
          added.epilogue = Epilogue::kBias;
          added.bias = true;
          EXPECT_TRUE(Run(added));
        }
      }
    }
  }
  EXPECT_TRUE(Run({1, 1, 1, DType::kBF16, DType::kBF16}));
}

TEST_F(MatmulTest, EpiloguesOfTraining) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    EXPECT_TRUE(
        Run({.m = 9, .n = 16, .k = 21, .input = type, .output = type, .epilogue = Epilogue::kGeluSlope, .spare = 0}));
  }
}

TEST_F(MatmulTest, AuxOfAnOddStrideIsDeclinedWithoutAsking) {
  EXPECT_FALSE(Run({.m = 9,
                    .n = 13,
                    .k = 21,
                    .input = DType::kBF16,
                    .output = DType::kBF16,
                    .epilogue = Epilogue::kGeluSlope,
                    .spare = 0}));
  EXPECT_EQ(emulation::cublaslt().queries, 0);
}

TEST_F(MatmulTest, DeclinedEpiloguesRunNothing) {
  emulation::cublaslt().fused_epilogues = false;
  for (const Epilogue epilogue : {Epilogue::kBias, Epilogue::kGeluSlope}) {
    EXPECT_FALSE(Run({.m = 8,
                      .n = 16,
                      .k = 8,
                      .input = DType::kBF16,
                      .output = DType::kBF16,
                      .epilogue = epilogue,
                      .bias = true,
                      .spare = 0}));
  }
  EXPECT_EQ(emulation::cublaslt().products, 0);
  EXPECT_TRUE(Run({8, 16, 8, DType::kBF16, DType::kBF16}));
}

TEST_F(MatmulTest, AsksOncePerProblemAndAlignment) {
  const Case p{13, 7, 21, DType::kBF16, DType::kBF16};
  Case shifted = p;
  shifted.skip = 1;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Run(p));
    EXPECT_TRUE(Run(shifted));
  }
  EXPECT_EQ(emulation::cublaslt().queries, 2);
  EXPECT_EQ(emulation::cublaslt().products, 6);
}

const Case kWithBias{
    .m = 8, .n = 16, .k = 8, .input = DType::kBF16, .output = DType::kBF16, .epilogue = Epilogue::kBias, .bias = true};

TEST_F(MatmulTest, AnEpilogueRefusedAtTheLaunchIsLeftToTheCaller) {
  const Case p = kWithBias;
  emulation::cublaslt().next_product = CUBLAS_STATUS_NOT_SUPPORTED;
  EXPECT_FALSE(Run(p));
  EXPECT_FALSE(Run(p));  // permanently: the run's bits do not change midway
  EXPECT_EQ(emulation::cublaslt().products, 0);
  EXPECT_EQ(stream_->Synchronize(), absl::OkStatus());
}

// A choice is not changed in the middle of a run, which would change the run's bits.
TEST_F(MatmulTest, AnEpilogueRefusedAfterItHasRunIsAFailure) {
  const Case p = kWithBias;
  EXPECT_TRUE(Run(p));
  const TestTensor a(8, 8, DType::kBF16, 1), b(8, 16, DType::kBF16, 2), bias(1, 16, DType::kBF16, 3);
  const TestTensor d(8, 16, DType::kBF16, 4);
  const MatmulArguments product{.m = 8,
                                .n = 16,
                                .k = 8,
                                .a = {a.tensor(), 8},
                                .b = {b.tensor(), 16},
                                .d = {d.tensor(), 16},
                                .epilogue = Epilogue::kBias,
                                .bias = bias.tensor()};
  EXPECT_TRUE(matmul_->Run(*stream_, "LinearForward", product));
  ASSERT_EQ(stream_->Synchronize(), absl::OkStatus());
  emulation::cublaslt().next_product = CUBLAS_STATUS_NOT_SUPPORTED;
  EXPECT_TRUE(matmul_->Run(*stream_, "LinearForward", product));
  EXPECT_EQ(stream_->Synchronize().code(), absl::StatusCode::kInternal);
}

// Stages place tensors differently, and the query to the library must not depend on it: a bias that happens to be
// aligned to 256 is queried as one aligned to 16.
TEST_F(MatmulTest, TheChoiceDoesNotDependOnWhereABiasIsPlaced) {
  const TestTensor a(8, 8, DType::kBF16, 1), b(8, 16, DType::kBF16, 2), d(8, 16, DType::kBF16, 4);
  const TestTensor biases(1, 16 * 40, DType::kBF16, 3);
  for (int64_t place = 0; place < 32; ++place) {  // at every multiple of 16 bytes
    const MatmulArguments product{.m = 8,
                                  .n = 16,
                                  .k = 8,
                                  .a = {a.tensor(), 8},
                                  .b = {b.tensor(), 16},
                                  .d = {d.tensor(), 16},
                                  .epilogue = Epilogue::kBias,
                                  .bias = biases.tensor().Offset(place * 8)};
    EXPECT_TRUE(matmul_->Run(*stream_, "LinearForward", product));
  }
  EXPECT_EQ(stream_->Synchronize(), absl::OkStatus());
  EXPECT_EQ(emulation::cublaslt().queries, 1);
}

TEST_F(MatmulTest, FailuresAreKeptUnderTheOpsName) {
  const TestTensor a(4, 4, DType::kF32, 1), b(4, 4, DType::kF32, 2), d(4, 4, DType::kF32, 3);
  const MatmulArguments product{
      .m = 4, .n = 4, .k = 4, .a = {a.tensor(), 4}, .b = {b.tensor(), 4}, .d = {d.tensor(), 4}};
  emulation::cublaslt().next_product = CUBLAS_STATUS_EXECUTION_FAILED;
  EXPECT_TRUE(matmul_->Run(*stream_, "LinearForward", product));
  const absl::Status status = stream_->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message().substr(0, 31), "LinearForward: cublasLtMatmul: ");
  EXPECT_TRUE(matmul_->Run(*stream_, "LinearForward", product));
  EXPECT_EQ(stream_->Synchronize(), absl::OkStatus());
}

TEST_F(MatmulTest, ARefusedBandNamesTheKey) {
  emulation::cublaslt().bands = false;
  const TestTensor a(8, 8, DType::kF32, 1), b(8, 4, DType::kF32, 2), d(8, 4, DType::kF32, 3);
  EXPECT_TRUE(matmul_->Run(*stream_, "Test",
                           {.m = 8,
                            .n = 4,
                            .k = 8,
                            .a = {a.tensor(), a.stride()},
                            .b = {b.tensor(), b.stride()},
                            .d = {d.tensor(), d.stride()},
                            .whole_m = 16}));
  EXPECT_EQ(stream_->Synchronize(),
            absl::FailedPreconditionError("Test: cuBLASLt's algorithm for the product of 16 x 4 x 8 does not run its "
                                          "band of 8 x 4, and another would change the bits; set "
                                          "buffers.bucket_bytes: 0"));
}

TEST_F(MatmulTest, CreateSaysWhyInOneLine) {
  emulation::cublaslt().create = CUBLAS_STATUS_NOT_INITIALIZED;
  const absl::Status status = Matmul::Create(workspace_.as<void>(), workspace_.count() * 4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("CUBLAS_STATUS_NOT_INITIALIZED"), absl::string_view::npos);
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
}

}  // namespace
}  // namespace zerofleet::device::cuda
