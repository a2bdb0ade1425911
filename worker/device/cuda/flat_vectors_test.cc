// Kernels on flat vectors on the emulated GPU, in cases the conformance suite does not cover: every alignment,
// narrowing in place across its launches, many segments, and exactly the bits of the host's own arithmetic.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "base/units.h"
#include "worker/device/cuda/kernel_testing.h"
#include "worker/device/cuda/workspace.h"
#include "worker/device/element_math.h"
#include "worker/device/exact_sum.h"
#include "worker/device/random_normal.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int64_t kCounts[] = {0, 1, 3, 4, 7, 8, 33, 250, 1000, 2051};
constexpr int64_t kSkips[] = {0, 1, 2, 5};

class FlatVectorsTest : public KernelTest {
 protected:
  // Puts special values into every second element: infinities, NaNs with payload, subnormals, ties.
  void Spice(Vector& vector) {
    constexpr uint32_t kBits[] = {0x7f800000, 0xff800000, 0x7fc12345, 0xff801001, 0x00000001, 0x33800000,
                                  0x38801000, 0x3f808000, 0x3f818000, 0x477fefff, 0x477ff000, 0x7f7fffff};
    for (int64_t i = 0; i < vector.count(); i += 2) {
      vector.Set(i, std::bit_cast<float>(kBits[i / 2 % std::size(kBits)]));
    }
  }
  std::vector<uint8_t> Converted(const Vector& from, DType to) {
    Vector want(device(), from.count(), to, 0);
    for (int64_t i = 0; i < from.count(); ++i) want.Set(i, from.Get(i));
    return want.Bytes();
  }
};

TEST_F(FlatVectorsTest, ConvertBetweenAllTypes) {
  for (const DType from_type : kAllTypes) {
    for (const DType to_type : kAllTypes) {
      for (const int64_t count : kCounts) {
        for (const int64_t skip : kSkips) {
          Vector from(device(), count, from_type, 1, skip);
          const Vector to(device(), count, to_type, 2, skip % 3);
          Spice(from);
          ops().Convert(stream(), count, from.tensor(), to.tensor());
          ASSERT_EQ(to.Bytes(), Converted(from, to_type)) << DTypeName(from_type) << " to " << DTypeName(to_type);
        }
      }
    }
  }
}

TEST_F(FlatVectorsTest, ConvertInPlace) {
  for (const DType from_type : kAllTypes) {
    for (const DType to_type : kAllTypes) {
      if (DTypeBytes(to_type) > DTypeBytes(from_type)) continue;
      for (const int64_t count : {1, 250, 8193, 16387}) {
        for (const int64_t skip : {0, 1}) {
          InEveryOrder([&] {
            Vector buffer(device(), count, from_type, 1, skip);
            Spice(buffer);
            std::vector<uint8_t> want = Converted(buffer, to_type);
            ops().Convert(stream(), count, buffer.tensor(), {buffer.tensor().data, to_type});
            std::vector<uint8_t> got = buffer.Bytes();
            got.resize(want.size());
            EXPECT_EQ(got, want) << count;
            return got;
          });
        }
      }
    }
  }
}

// Elements that do not fit in the workspace are narrowed in place, over inputs that have been read.
TEST_F(FlatVectorsTest, ConvertInPlaceGoesOnPastTheWorkspace) {
  const int64_t first = kPartialBytes / 2, count = first + 3001;
  const auto memory = device().Reserve(count * 4).value();
  float* const values = reinterpret_cast<float*>(memory->data());
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 253);  // each exact in bf16
  ops().Convert(stream(), count, {values, DType::kF32}, {values, DType::kBF16});
  const BF16* const narrowed = reinterpret_cast<const BF16*>(values);
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(ToFloat(narrowed[i]), static_cast<float>(i % 253)) << i;
}

TEST_F(FlatVectorsTest, AccumulateZeroAndFill) {
  for (const DType dtype : kAllTypes) {
    for (const int64_t count : kCounts) {
      for (const int64_t skip : kSkips) {
        const Vector from(device(), count, dtype, 1, skip), sum(device(), count, DType::kF32, 2, skip % 2);
        std::vector<float> want = sum.Values();
        for (int64_t i = 0; i < count; ++i) want[i] += from.Get(i);
        ops().Accumulate(stream(), count, from.tensor(), sum.as());
        ASSERT_EQ(sum.Values(), want);
        ops().Fill(stream(), count, -2.5f, sum.as());
        ASSERT_EQ(sum.Values(), std::vector<float>(count, -2.5f));
        ops().Zero(stream(), sum.as<void>(), count * 4);
        ASSERT_EQ(sum.Values(), std::vector<float>(count));
      }
    }
  }
}

TEST_F(FlatVectorsTest, SumSquaresIsTheSameAtAnyAlignment) {
  const Vector result(device(), 2, DType::kF32, 0);
  for (const DType dtype : kAllTypes) {
    for (const int64_t count : {0, 1, 7, 8, 250, 8192, 8193, 32771}) {
      double first = 0;
      for (const int64_t skip : kSkips) {
        const Vector aligned(device(), count, dtype, 1, 0);
        Vector x(device(), count, dtype, 1, skip);
        for (int64_t i = 0; i < count; ++i) x.Set(i, aligned.Get(i));
        double want = 0;
        for (const double value : x.Values()) want += value * value;
        InEveryOrder([&] {
          ops().SumSquares(stream(), count, x.tensor(), result.as<double>());
          EXPECT_NEAR(*result.as<double>(), want, 1e-12 * (1 + want));
          return *result.as<double>();
        });
        if (skip == 0) first = *result.as<double>();
        ASSERT_EQ(*result.as<double>(), first);
      }
    }
  }
}

// By exact_sum.h's own definition, block by block.
ExactSum SumOfBlocks(const Vector& x, int64_t place) {
  ExactSum sum;
  const int64_t first = std::min(x.count(), RoundUp(place, kSquaresTogether) - place);
  sum.Add(BlockOfSquares(x.as(), first));
  for (int64_t i = first; i < x.count(); i += kSquaresTogether) {
    sum.Add(BlockOfSquares(x.as() + i, std::min(kSquaresTogether, x.count() - i)));
  }
  sum.Normalize();
  return sum;
}

// Counts that end inside, at and past a tile and what one block of threads reads; ranges that begin within a block.
TEST_F(FlatVectorsTest, SumSquaresExactlyHasTheBitsOfItsBlocksAtAnyAlignment) {
  const Vector result(device(), sizeof(ExactSum) / sizeof(float), DType::kF32, 0);
  for (const int64_t count : {0, 1, 31, 32, 250, 4096, 4097, 12'300, 16'384, 40'003}) {
    for (const std::pair<int, int>& range : {std::pair(0, 0), {1, 0}, {0, 28}, {2, 7}, {4, 31}}) {
      const int skip = range.first, place = range.second;  // what lambdas may use
      Vector x(device(), count, DType::kF32, 1, skip);
      if (count == 250) x.Set(77, std::numeric_limits<float>::infinity());
      if (count == 4097) x.Set(4096, std::nanf(""));
      const ExactSum want = SumOfBlocks(x, place);
      InEveryOrder([&] {
        ops().SumSquaresExactly(stream(), count, x.as(), place, result.as<ExactSum>());
        const ExactSum& got = *result.as<ExactSum>();
        EXPECT_EQ(std::to_array(got.limbs), std::to_array(want.limbs)) << count << ", " << skip << ", " << place;
        EXPECT_EQ(std::pair(got.infinite, got.nan), std::pair(want.infinite, want.nan)) << count;
        return true;
      });
    }
  }
}

constexpr StepRule kUpdateRule{.tokens = 8,
                               .grad_clip = 1,
                               .loss_scaling = {.dynamic = true},
                               .learning_rate = 3e-4,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .epsilon = 1e-8,
                               .momentum = 0.8,
                               .weight_decay = 0.1};

class UpdateTest : public KernelTest {
 protected:
  UpdateTest() : control_(device().Reserve(sizeof(StepControl)).value()) {
    StepControl control;
    control.loss_scale = 4;
    control.updates = 2;
    DecideStep({.loss_sum = 8, .squared_norm = 100}, kUpdateRule, control);
    *this->control() = control;
  }
  StepControl* control() { return reinterpret_cast<StepControl*>(control_->data()); }

  // Segments of many lengths, some with a gap after them, over at most `count` elements.
  static std::vector<DecaySegment> Segments(int64_t count) {
    std::vector<DecaySegment> segments;
    for (int64_t at = 0, i = 0; at < count; ++i) {
      const int64_t length = std::min(count - at, i % 5 == 0 ? 300 + i : i % 9);
      segments.push_back({at, length, i % 2 == 0});
      at += length + (i % 7 == 6 ? 3 : 0);
    }
    return segments;
  }
  void RunAdamW(int64_t count, DType gradient_type, DType parameter_type, int64_t skip, int64_t other_skip,
                bool in_place);
  void RunSgd(int64_t count, DType gradient_type, DType parameter_type, int64_t skip, int64_t other_skip);
  void RunMuon(int64_t count, DType gradient_type, DType to_type, int64_t skip, int64_t other_skip);

 private:
  std::unique_ptr<Reservation> control_;
};

void UpdateTest::RunAdamW(int64_t count, DType gradient_type, DType parameter_type, int64_t skip, int64_t other_skip,
                          bool in_place) {
  const Vector gradient(device(), count, gradient_type, 1, other_skip), master(device(), count, DType::kF32, 2, skip);
  const Vector exp_avg(device(), count, DType::kF32, 3, skip);
  const Vector parameter(device(), count, parameter_type, 5, other_skip);
  Vector exp_avg_sq(device(), count, DType::kF32, 4, skip);
  for (int64_t i = 0; i < count; ++i) exp_avg_sq.Set(i, std::abs(exp_avg_sq.Get(i)));
  const Tensor result = in_place ? master.tensor() : parameter.tensor();
  std::vector<float> p = master.Values(), m = exp_avg.Values(), v = exp_avg_sq.Values(), rounded = parameter.Values();
  const std::vector<DecaySegment> segments = Segments(count);
  for (const DecaySegment& segment : segments) {
    const auto factors = element::MakeAdamWElements<element::FloatMath>(control()->factors, segment.decay);
    for (int64_t i = segment.offset; i < segment.offset + segment.count; ++i) {
      p[i] = element::AdamWElement<element::FloatMath>(factors, gradient.Get(i), p[i], m[i], v[i]);
      if (!in_place) rounded[i] = Rounded(p[i], parameter_type);
    }
  }
  ops().AdamW(stream(), {.segments = segments,
                         .control = control(),
                         .gradient = gradient.tensor(),
                         .master = master.as(),
                         .exp_avg = exp_avg.as(),
                         .exp_avg_sq = exp_avg_sq.as(),
                         .parameter = result});
  ASSERT_EQ(master.Values(), p);
  ASSERT_EQ(exp_avg.Values(), m);
  ASSERT_EQ(exp_avg_sq.Values(), v);
  ASSERT_EQ(parameter.Values(), rounded);
}

void UpdateTest::RunSgd(int64_t count, DType gradient_type, DType parameter_type, int64_t skip, int64_t other_skip) {
  const Vector gradient(device(), count, gradient_type, 1, other_skip), master(device(), count, DType::kF32, 2, skip);
  const Vector momentum(device(), count, DType::kF32, 3, other_skip),
      parameter(device(), count, parameter_type, 5, skip);
  std::vector<float> p = master.Values(), m = momentum.Values(), rounded = parameter.Values();
  const std::vector<DecaySegment> segments = Segments(count);
  for (const DecaySegment& segment : segments) {
    const auto factors = element::MakeSgdElements<element::FloatMath>(control()->factors, segment.decay);
    for (int64_t i = segment.offset; i < segment.offset + segment.count; ++i) {
      p[i] = element::SgdElement<element::FloatMath>(factors, gradient.Get(i), p[i], m[i]);
      rounded[i] = Rounded(p[i], parameter_type);
    }
  }
  ops().Sgd(stream(), {.segments = segments,
                       .control = control(),
                       .gradient = gradient.tensor(),
                       .master = master.as(),
                       .momentum = momentum.as(),
                       .parameter = parameter.tensor()});
  ASSERT_EQ(master.Values(), p);
  ASSERT_EQ(momentum.Values(), m);
  ASSERT_EQ(parameter.Values(), rounded);
}

TEST_F(UpdateTest, SgdToo) {
  for (const DType type : kAllTypes) {
    for (const int64_t count : kCounts) {
      for (const int64_t skip : kSkips) RunSgd(count, type, type, skip, skip == 2 ? 1 : skip);
    }
  }
}

void UpdateTest::RunMuon(int64_t count, DType gradient_type, DType to_type, int64_t skip, int64_t other_skip) {
  const Vector gradient(device(), count, gradient_type, 1, other_skip), momentum(device(), count, DType::kF32, 2, skip);
  const Vector to(device(), count, to_type, 3, other_skip), weights(device(), count, DType::kF32, 4, other_skip);
  std::vector<float> moved = momentum.Values(), direction, stepped;
  const auto factors = element::MakeMuonElements<element::FloatMath>(control()->factors);
  for (int64_t i = 0; i < count; ++i) {
    const float along = element::MuonDirectionElement<element::FloatMath>(factors, gradient.Get(i), moved[i]);
    direction.push_back(Rounded(along, to_type));
    const float decay = control()->factors.decay;
    stepped.push_back(element::MuonMovedElement<element::FloatMath>(decay, 0.01f, moved[i], weights.Get(i)));
  }
  ops().MuonDirection(stream(), {.count = count,
                                 .control = control(),
                                 .gradient = gradient.tensor(),
                                 .momentum = momentum.as(),
                                 .to = to.tensor()});
  ASSERT_EQ(momentum.Values(), moved);
  ASSERT_EQ(to.Values(), direction);
  ops().MuonMove(stream(), {.count = count,
                            .control = control(),
                            .decays = true,
                            .scale = 0.01f,
                            .direction = momentum.as(),
                            .from = weights.as(),
                            .to = weights.tensor()});
  ASSERT_EQ(weights.Values(), stepped);
}

TEST_F(UpdateTest, MuonToo) {
  for (const DType gradient : kAllTypes) {
    for (const DType to : kAllTypes) {
      for (const int64_t count : kCounts) {
        for (const int64_t skip : kSkips) RunMuon(count, gradient, to, skip, skip == 2 ? 1 : skip);
      }
    }
  }
}

TEST_F(UpdateTest, EveryElementGetsItsOwnArithmeticWhereverItStands) {
  for (const DType gradient : kAllTypes) {
    for (const DType parameter : kAllTypes) {
      for (const int64_t count : kCounts) {
        for (const int64_t skip : kSkips) RunAdamW(count, gradient, parameter, skip, skip == 2 ? 1 : skip, false);
      }
    }
    RunAdamW(1000, gradient, DType::kF32, 1, 0, true);
  }
  EXPECT_GT(Segments(20000).size(), 64u);
  InEveryOrder([&] {
    RunAdamW(20000, DType::kBF16, DType::kBF16, 0, 0, false);
    return true;
  });
}

TEST_F(UpdateTest, ASkippedStepLeavesTheStateAlone) {
  control()->apply = 0;
  const Vector state(device(), 1000, DType::kF32, 1), gradient(device(), 1000, DType::kF32, 2);
  const std::vector<float> before = state.Values();
  const DecaySegment all{0, 1000, true};
  ops().AdamW(stream(), {.segments = {&all, 1},
                         .control = control(),
                         .gradient = gradient.tensor(),
                         .master = state.as(),
                         .exp_avg = state.as(),
                         .exp_avg_sq = state.as(),
                         .parameter = state.tensor()});
  EXPECT_EQ(state.Values(), before);
}

using StepTest = KernelTest;

TEST_F(StepTest, TheHostsOwnNumbers) {
  const auto memory = device().Reserve(sizeof(StepControl) + 3 * sizeof(StepScalars)).value();
  StepControl* const control = reinterpret_cast<StepControl*>(memory->data());
  StepScalars* const ranks = reinterpret_cast<StepScalars*>(memory->data() + sizeof(StepControl));
  StepControl want;
  *control = want;
  const double losses[] = {3, 0.1, 4}, squares[] = {1, 0.25};
  StepRule rule = kUpdateRule;
  rule.tokens = 7;
  for (const double bad : {0.0, std::nan(""), 0.0}) {
    ops().BeginStep(stream(), 7, control);
    BeginStep(7, want);
    EXPECT_EQ(control->gradient_scale, want.gradient_scale);
    for (int rank = 0; rank < 3; ++rank)
      ops().SumScalars(stream(), {.losses = losses,
                                  .loss_count = rank,
                                  .squares = squares,
                                  .square_count = 2,
                                  .flags = 1u << rank,
                                  .mine = ranks + rank});
    ranks[1].squared_norm += bad;
    ops().DecideStep(stream(), ranks, 3, rule, control);
    DecideStep(SumOverRanks(ranks, 3), rule, want);
    EXPECT_EQ(want.flags, 7u);
    EXPECT_EQ(want.apply, std::isnan(bad) ? 0u : 1u);
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bits are compared, of floats without padding
    EXPECT_EQ(std::memcmp(&control->factors, &want.factors, sizeof want.factors), 0);
    EXPECT_EQ(std::tuple(control->apply, control->loss, control->updates, control->skipped, control->loss_scale),
              std::tuple(want.apply, want.loss, want.updates, want.skipped, want.loss_scale));
  }
}

TEST_F(KernelTest, FillNormalIsTheGeneratorsAtEveryOffset) {
  for (const int64_t first : {int64_t{0}, int64_t{1}, int64_t{6}, int64_t{1} << 40}) {
    for (const int64_t count : kCounts) {
      for (const int64_t skip : kSkips) {
        const Vector to(device(), count, DType::kF32, 1, skip);
        ops().FillNormal(
            stream(), {.count = count, .seed = 42, .stream_id = 7, .first = first, .deviation = 0.02f, .to = to.as()});
        for (int64_t i = 0; i < count; ++i) {
          const uint64_t at = static_cast<uint64_t>(first + i);
          ASSERT_EQ(to.Get(i), NormalsOfBlock(42, 7, at / 4, static_cast<double>(0.02f)).value[at % 4]) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace zerofleet::device::cuda
