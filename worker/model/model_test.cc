// The factory and the helpers every family shares.
#include "worker/model/model.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/model_testing.h"

namespace zerofleet {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(UsedUnits, AreTheAcquiredOnesInOrder) {
  EXPECT_THAT(
      UsedUnits(
          {{UnitEvent::kAcquire, 2}, {UnitEvent::kRelease, 2}, {UnitEvent::kDeliver, 2}, {UnitEvent::kAcquire, 0}}),
      ElementsAre(2, 0));
}

TEST(Model, AnUnknownFamilyIsNamed) {
  std::unique_ptr<Device> device = *CreateDevice({.kind = "cpu", .threads = 1});
  v1::ModelConfig config = TestModelConfig(1, 8, 2, 4, 11);
  config.set_family("mamba");
  EXPECT_THAT(std::string(Model::Create(config, DType::kF32, *device, 1, 4).status().message()), HasSubstr("mamba"));
}

}  // namespace
}  // namespace zerofleet
