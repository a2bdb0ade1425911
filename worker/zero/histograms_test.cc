// Histograms of tensors over a fleet: every value counts once, whatever the stage, the number of ranks and the place of
// the states.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "worker/zero/memory_plan.h"
#include "worker/zero/offload_testing.h"

namespace zerofleet::zero {
namespace {

FleetSetup DrawnFleet(int stage, int world_size) {
  FleetSetup setup;
  setup.stage = stage;
  setup.world_size = world_size;
  setup.leaves = 6;
  setup.steps = 2;
  setup.histograms = true;
  return setup;
}

// The last step's histograms, from one rank; the others' are the same.
std::vector<TensorSpreads> DrawFleet(const FleetSetup& setup) {
  std::vector<TensorSpreads> drawn;
  absl::Mutex mutex;
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    for (int64_t step = 1; step <= setup.steps; ++step) {
      rank.Step(step);
      std::vector<TensorSpreads> mine = *rank.engine().TakeHistograms();
      const absl::MutexLock lock(&mutex);
      drawn = std::move(mine);
    }
  });
  return drawn;
}

void ExpectSameSpreads(const std::vector<TensorSpreads>& got, const std::vector<TensorSpreads>& want,
                       const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t t = 0; t < got.size(); ++t) {
    EXPECT_EQ(got[t].tensor, want[t].tensor);
    for (const auto values : {&TensorSpreads::weights, &TensorSpreads::gradients}) {
      const Spread &a = got[t].*values, &b = want[t].*values;
      EXPECT_EQ(a.counts, b.counts) << what << " " << got[t].tensor;
      EXPECT_EQ(a.least, b.least) << what;
      EXPECT_EQ(a.most, b.most) << what;
      EXPECT_EQ(a.sum.Value(), b.sum.Value()) << what;
      EXPECT_EQ(a.squares.Value(), b.squares.Value()) << what;
    }
  }
}

TEST(Histograms, CountEveryValueOnce) {
  const FleetSetup setup = DrawnFleet(2, 2);
  const model::ModelSpec spec = SpecOf(setup, 0);
  const FleetResult trained = TrainFleet([&] {
    FleetSetup plain = setup;
    plain.histograms = false;
    return plain;
  }());
  const std::vector<TensorSpreads> drawn = DrawFleet(setup);
  ASSERT_EQ(drawn.size(), spec.tensors().size());
  device::ExactSum squares;
  for (size_t t = 0; t < drawn.size(); ++t) {
    const model::TensorSpec& tensor = spec.tensors()[t];
    Spread weights;
    for (int64_t i = tensor.flat_begin; i < tensor.flat_end; ++i) {
      weights.Add(static_cast<double>(trained.master()[static_cast<size_t>(i)]));
    }
    EXPECT_EQ(drawn[t].tensor, tensor.name);
    EXPECT_EQ(drawn[t].weights.count, tensor.elements());
    EXPECT_EQ(drawn[t].weights.counts, weights.counts) << tensor.name;
    EXPECT_EQ(drawn[t].weights.sum.Value(), weights.sum.Value());
    EXPECT_EQ(drawn[t].gradients.count, tensor.elements());
    Spread gradients = drawn[t].gradients;
    gradients.squares.Normalize();
    squares.Add(gradients.squares);
  }
  EXPECT_NEAR(std::sqrt(squares.Value()), trained.grad_norms.back(), 1e-9 * trained.grad_norms.back());
}

TEST(Histograms, AreTheSameInEveryStageAndWithAnyNumberOfRanks) {
  const std::vector<TensorSpreads> alone = DrawFleet(DrawnFleet(2, 1));
  for (int stage = 0; stage <= 3; ++stage) {
    ExpectSameSpreads(DrawFleet(DrawnFleet(stage, stage + 1)), alone, absl::StrCat("stage ", stage));
  }
  FleetSetup offloaded = DrawnFleet(3, 2);
  offloaded.placement.residence = StatePlacement::Residence::kHost;
  ExpectSameSpreads(DrawFleet(offloaded), alone, "offloaded");
}

TEST(Histograms, CountWhatPartsOfAModelShareOnce) {
  FleetSetup setup = DrawnFleet(2, 2);
  setup.model = model::TestModelConfig(2, 24, 4, 10, 53);
  const std::vector<TensorSpreads> whole = DrawFleet(setup);
  setup.tensor = 2;
  const std::vector<TensorSpreads> parts = DrawFleet(setup);
  ASSERT_EQ(parts.size(), whole.size());
  for (size_t t = 0; t < parts.size(); ++t) {
    EXPECT_EQ(parts[t].weights.count, whole[t].weights.count) << whole[t].tensor;
    EXPECT_EQ(parts[t].gradients.count, whole[t].gradients.count) << whole[t].tensor;
    EXPECT_NEAR(parts[t].weights.sum.Value(), whole[t].weights.sum.Value(), 1e-3) << whole[t].tensor;
  }
}

TEST(Histograms, LeaveFrozenTensorsOutAndTheLossScale) {
  FleetSetup setup = DrawnFleet(2, 2);
  setup.freeze = {"h.1.*", "transformer.h.*.ln_2.bias"};
  const std::vector<TensorSpreads> single = DrawFleet(setup);
  for (const TensorSpreads& one : single) {
    EXPECT_FALSE(one.tensor.find(".h.1.") != std::string::npos || one.tensor.ends_with("ln_2.bias")) << one.tensor;
  }
  setup.dtype = device::DType::kF16;
  const std::vector<TensorSpreads> half = DrawFleet(setup);
  for (size_t t = 0; t < half.size(); ++t) {
    const double a = half[t].gradients.squares.Value(), b = single[t].gradients.squares.Value();
    EXPECT_NEAR(a, b, 0.2 * b + 1e-9) << half[t].tensor;
  }
}

// A piece of values on the host, and a spread of every rank on the device; the parts of a model may be more than the
// ranks.
TEST(Histograms, TakeMemoryOnlyWhereStepsAreDrawn) {
  FleetSetup setup = DrawnFleet(3, 2);
  for (const int parts : {1, 4}) {
    if (parts > 1) setup.model = model::TestModelConfig(2, 24, 4, 10, 53);
    setup.tensor = parts;
    const auto buffers = [&](bool histograms) {
      setup.histograms = histograms;
      std::vector<int64_t> bytes;
      RunFleet(setup, [&](TestRank& rank) {
        ZF_CHECK(rank.engine().Initialize(1).ok());
        rank.Step(1);
        if (rank.layout().options().rank > 0 || rank.layout().part().index > 0) return;
        bytes = {BytesIn(rank.arena(), memory::Category::kBuffers),
                 BytesIn(rank.host_arena(), memory::Category::kBuffers)};
        const int64_t tokens = setup.global_sequences / setup.leaves * setup.model.context();
        const memory::MemoryPlan plan = PlanMemory(rank.model(), rank.layout(), tokens);
        for (const memory::Space space : {memory::Space::kDevice, memory::Space::kHost}) {
          bytes.push_back(plan.Bytes(space, memory::Category::kBuffers));
        }
      });
      return bytes;
    };
    const std::vector<int64_t> without = buffers(false), with = buffers(true);
    for (const size_t of : {0, 2}) {
      EXPECT_EQ(with[of] - without[of], std::max(2, parts) * static_cast<int64_t>(sizeof(Spread)));
      EXPECT_EQ(with[of + 1] - without[of + 1], 256 << 10);
    }
  }
}

}  // namespace
}  // namespace zerofleet::zero
