// Initial weights depend on the seed alone; what is stored and loaded covers the model once.
#include "worker/zero/training_state.h"

#include <atomic>

#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

TEST(TrainingState, InitialWeightsDoNotDependOnTheFleet) {
  FleetSetup setup{.stage = 0, .world_size = 1, .steps = 0};
  FleetResult alone = TrainFleet(setup);
  for (int world_size : {2, 3}) {
    FleetResult fleet = TrainFleet({.stage = 3, .world_size = world_size, .steps = 0});
    EXPECT_EQ(fleet.master(), alone.master()) << world_size;
  }
  setup.seed = 6;
  EXPECT_NE(TrainFleet(setup).master(), alone.master());
}

TEST(TrainingState, AnyPartOfTheModelCanBeMade) {
  RunFleet({}, [](TestRank& rank) {
    std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
    std::unique_ptr<device::Stream> stream = *device->CreateStream();
    int64_t parameters = rank.spec().parameters();
    std::vector<float> whole(parameters), pieces(parameters, -1.0f);
    rank.engine().state().FillInitial(0, parameters, 5, device->ops(), *stream, whole.data());
    for (int64_t begin = 0; begin < parameters; begin += 1001) {
      int64_t end = std::min(begin + 1001, parameters);
      rank.engine().state().FillInitial(begin, end, 5, device->ops(), *stream, &pieces[begin]);
    }
    EXPECT_EQ(pieces, whole);
  });
}

TEST(TrainingState, OwnersStoreEveryElementOnce) {
  for (int stage : {0, 3}) {
    std::vector<std::atomic<int>> stored(model::ModelSpec::Create(FleetSetup().model)->parameters());
    RunFleet({.stage = stage, .world_size = 3}, [&](TestRank& rank) {
      for (const coordinator::PlacedRange& range : rank.engine().state().RangesToStore()) {
        for (int64_t i = range.flat_begin; i < range.flat_end; ++i) ++stored[i];
      }
    });
    for (const std::atomic<int>& count : stored) ASSERT_EQ(count, 1) << "stage " << stage;
  }
}

}  // namespace
}  // namespace zerofleet::zero
