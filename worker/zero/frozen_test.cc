// Frozen tensors: units of frozen tensors have only parameters, and frozen tensors within another unit keep their
// values; the same bits in every stage.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// A whole block, and the biases of a norm in each of the others.
const std::vector<std::string> kSomeFrozen = {"h.1.*", "transformer.h.*.ln_2.bias"};

FleetSetup FrozenFleet(const std::vector<std::string>& freeze = kSomeFrozen) {
  FleetSetup setup{.world_size = 2, .freeze = freeze};
  setup.settings = TestOptimizer(setup.optimizer);
  return setup;
}

TEST(Frozen, TheSameBitsInEveryStage) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (const std::vector<std::string>& freeze : {kSomeFrozen, {"wte.weight", "wpe.weight"}, {"ln_f.*", "h.0.*"}}) {
      FleetSetup setup = FrozenFleet(freeze);
      setup.dtype = dtype;
      const FleetResult plain = TrainFleet(setup);
      for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
        const FleetResult split = TrainFleet(setup);
        EXPECT_THAT(split.losses, ElementsAreArray(plain.losses)) << setup.stage << freeze[0];
        EXPECT_THAT(split.grad_norms, ElementsAreArray(plain.grad_norms)) << setup.stage << freeze[0];
        EXPECT_EQ(split.states, plain.states) << setup.stage << freeze[0];
      }
    }
  }
}

// Frozen gradients do not count for clipping; without clipping a first step moves the other tensors as in the unfrozen
// model.
TEST(Frozen, OnlyTheOthersChange) {
  for (const std::string optimizer : {"adamw", "sgd"}) {
    for (const int64_t bucket_bytes : {0, 4096}) {
      FleetSetup setup = FrozenFleet();
      setup.stage = 2;
      setup.optimizer = optimizer;
      setup.bucket_bytes = bucket_bytes;
      setup.settings = TestOptimizer(optimizer);
      setup.settings->set_grad_clip(0);
      setup.settings->set_weight_decay(0.5);
      setup.steps = 0;
      const model::ModelSpec spec = SpecOf(setup, 0);
      const FleetResult initial = TrainFleet(setup);
      setup.steps = 1;
      const FleetResult frozen = TrainFleet(setup);
      setup.freeze = {};
      const FleetResult free = TrainFleet(setup);
      EXPECT_LT(frozen.grad_norms[0], free.grad_norms[0]);
      for (const model::TensorSpec& tensor : spec.tensors()) {
        if (spec.units()[tensor.unit].frozen) continue;
        const FleetResult& expected = tensor.frozen ? initial : free;
        for (int64_t i = tensor.flat_begin; i < tensor.flat_end; ++i) {
          ASSERT_EQ(frozen.master()[i], expected.master()[i]) << optimizer << " " << tensor.name;
        }
      }
    }
  }
}

TEST(Frozen, WithOffloadPartsBucketsMicroBatchesAndAnyNumberOfRanks) {
  FleetSetup setup = FrozenFleet({"wte.weight", "h.0.*", "h.2.attn.*"});
  setup.stage = 2;
  const FleetResult plain = TrainFleet(setup);
  setup.placement.residence = StatePlacement::Residence::kHost;
  EXPECT_EQ(TrainFleet(setup).states, plain.states);
  setup.placement.fraction = 0.5;
  EXPECT_EQ(TrainFleet(setup).states, plain.states);
  setup.placement = {};
  setup.bucket_bytes = 4096;
  EXPECT_EQ(TrainFleet(setup).losses, plain.losses);
  setup.bucket_bytes = 0;
  setup.leaves = 6;
  const FleetResult chained = TrainFleet(setup);
  setup.stage = 3;
  for (setup.world_size = 1; setup.world_size <= 3; ++setup.world_size) {
    EXPECT_EQ(TrainFleet(setup).states, chained.states) << setup.world_size;
  }
  setup.leaves = 0;
  setup.world_size = 2;
  setup.model = model::TestModelConfig(3, 24, 4, 10, 53);
  for (const int64_t micro_batches : {1, 3}) {
    setup.micro_batches = micro_batches;
    setup.tensor = 1;
    const FleetResult whole = TrainFleet(setup);
    setup.tensor = 2;
    for (const bool sequence : {false, true}) {
      setup.sequence = sequence;
      const FleetResult parts = TrainFleet(setup);
      for (size_t i = 0; i < whole.losses.size(); ++i) EXPECT_NEAR(parts.losses[i], whole.losses[i], 1e-4);
    }
    setup.sequence = false;
  }
}

// A frozen unit takes 2 bytes a parameter in bf16, and neither gradients nor optimizer states.
TEST(Frozen, UnitsTakeTheirParametersAlone) {
  for (const int world_size : {1, 2}) {
    for (int stage = 0; stage <= 3; ++stage) {
      FleetSetup setup = FrozenFleet({"wte.*", "wpe.*", "h.0.*", "h.1.*"});
      setup.stage = stage;
      setup.world_size = world_size;
      setup.dtype = device::DType::kBF16;
      RunFleet(setup, [&](TestRank& rank) {
        const coordinator::PartitionMap& map = rank.layout().partition();
        const int64_t all = map.TotalPaddedElements();
        const int64_t trained = all - map.PaddedElements(0) - map.PaddedElements(1) - map.PaddedElements(2);
        const auto current = [&](memory::Category category) {
          return rank.arena().figures().categories[static_cast<int>(category)].current;
        };
        EXPECT_EQ(current(memory::Category::kParameters), 2 * all / (stage >= 3 ? world_size : 1));
        EXPECT_EQ(current(memory::Category::kGradients), 2 * trained / (stage >= 2 ? world_size : 1));
        EXPECT_EQ(current(memory::Category::kOptimizer), 12 * trained / (stage >= 1 ? world_size : 1));
      });
    }
  }
}

TEST(Frozen, UnitsAreNeitherReducedNorPublished) {
  for (int stage = 0; stage <= 3; ++stage) {
    FleetSetup setup = FrozenFleet({"wte.*", "wpe.*", "h.1.*"});
    setup.stage = stage;
    RunFleet(setup, [&](TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(1).ok());
      rank.Step(1);
      ZF_CHECK(rank.engine().Finish().ok());
      int gathers = 0;
      for (const collective::CollectiveRecord& record : rank.StopAndTakeRecords()) {
        if (record.unit != "block.1" && record.unit != "embedding") continue;
        EXPECT_EQ(record.operation, collective::Operation::kAllGather) << record.unit;
        ++gathers;
      }
      EXPECT_EQ(gathers > 0, stage == 3);
    });
  }
}

TEST(Frozen, WeightsMayComeFromElsewhere) {
  for (const int stage : {1, 3}) {
    FleetSetup setup = FrozenFleet({"h.1.*"});
    setup.stage = stage;
    const FleetResult plain = TrainFleet(setup);
    RunFleet(setup, [&](TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
      const coordinator::PlacedRange rest = rank.layout().RestingParameters(2);
      ZF_CHECK(rank.engine().TakeFrozen(rest.offset, std::vector<float>(rest.elements(), 0.125f)).ok());
      EXPECT_NE(rank.Step(1).loss, plain.losses[0]);
    });
  }
}

// Adapters of small random values, so that both factors have gradients.
FleetSetup AdaptedFleet(const v1::ModelConfig& model) {
  FleetSetup setup{.model = model, .world_size = 2, .steps = 3};
  setup.model.mutable_lora()->set_rank(3);
  setup.model.mutable_lora()->set_alpha(6);
  return setup;
}

v1::ModelConfig SmallLlama() {
  v1::ModelConfig config = model::TestModelConfig(2, 24, 4, 10, 53);
  config.set_family("llama");
  config.set_kv_heads(2);
  config.set_intermediate(40);
  config.set_head_size(6);
  config.set_rope_theta(1e4);
  config.set_qk_norm(true);
  return config;
}

TEST(Adapters, TheSameBitsInEveryStage) {
  for (const v1::ModelConfig& model : {model::TestModelConfig(3, 24, 4, 10, 53), SmallLlama()}) {
    for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
      FleetSetup setup = AdaptedFleet(model);
      setup.dtype = dtype;
      const FleetResult plain = TrainFleet(setup);
      EXPECT_LT(plain.losses.back(), plain.losses.front() + 0.1);
      EXPECT_GT(plain.grad_norms.back(), 0);
      for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
        const FleetResult split = TrainFleet(setup);
        EXPECT_THAT(split.losses, ElementsAreArray(plain.losses)) << setup.stage;
        EXPECT_EQ(split.states, plain.states) << setup.stage;
      }
      setup.stage = 2;
      setup.placement.residence = StatePlacement::Residence::kHost;
      EXPECT_EQ(TrainFleet(setup).states, plain.states);
    }
  }
}

TEST(Adapters, AnyNumberOfRanksAndAnyCheckpointing) {
  FleetSetup setup = AdaptedFleet(SmallLlama());
  setup.leaves = 6;
  setup.stage = 3;
  const FleetResult plain = TrainFleet(setup);
  for (const int world_size : {1, 3}) {
    setup.world_size = world_size;
    EXPECT_EQ(TrainFleet(setup).states, plain.states) << world_size;
  }
  for (const model::Checkpointing& checkpointing :
       {model::Checkpointing{.segment = 1}, model::Checkpointing{.selective = true}}) {
    setup.checkpointing = checkpointing;
    EXPECT_EQ(TrainFleet(setup).states, plain.states);
  }
}

TEST(Adapters, PartsTrainAsTheWhole) {
  for (const v1::ModelConfig& model : {model::TestModelConfig(2, 24, 4, 10, 53), SmallLlama()}) {
    for (const int64_t micro_batches : {1, 3}) {
      FleetSetup setup = AdaptedFleet(model);
      setup.stage = 1;
      setup.micro_batches = micro_batches;
      const FleetResult whole = TrainFleet(setup);
      setup.tensor = 2;
      for (const bool sequence : {false, true}) {
        setup.sequence = sequence;
        const FleetResult parts = TrainFleet(setup);
        for (size_t i = 0; i < whole.losses.size(); ++i) {
          EXPECT_NEAR(parts.losses[i], whole.losses[i], 1e-4);
          EXPECT_NEAR(parts.grad_norms[i], whole.grad_norms[i], 1e-3 * whole.grad_norms[i]);
        }
      }
    }
  }
}

TEST(Adapters, AreAllThatIsTrained) {
  FleetSetup setup = AdaptedFleet(model::TestModelConfig(3, 24, 4, 10, 53));
  setup.model.mutable_lora()->add_targets("c_attn");
  setup.model.mutable_lora()->add_targets("mlp.c_proj");
  const model::ModelSpec spec = SpecOf(setup, 0);
  const FleetResult result = TrainFleet(setup);
  int64_t adapters = 0;
  for (const model::TensorSpec& tensor : spec.tensors()) {
    const bool trained = tensor.name.find(".lora_") != std::string::npos;
    EXPECT_EQ(!tensor.frozen, trained) << tensor.name;
    if (!trained) continue;
    adapters += tensor.elements();
    EXPECT_NE(result.states[1][tensor.flat_begin], 0) << tensor.name;
  }
  EXPECT_EQ(adapters, 3 * 3 * (24 + 72 + 96 + 24));
  EXPECT_EQ(spec.whole_parameters() - spec.whole_base_parameters(), adapters);
}

TEST(Adapters, TargetsAreChecked) {
  v1::ModelConfig config = SmallLlama();
  config.mutable_lora()->set_rank(2);
  config.mutable_lora()->add_targets("c_attn");
  EXPECT_THAT(std::string(model::ModelSpec::Create(config).status().message()),
              HasSubstr("model.lora.targets: \"c_attn\" is no product of the blocks; they are self_attn.q_proj"));
  config.mutable_lora()->set_targets(0, "q_proj");
  config.add_freeze("*");
  EXPECT_THAT(std::string(model::ModelSpec::Create(config).status().message()), HasSubstr("leave it out"));
}

TEST(Frozen, PatternsAreChecked) {
  model::ModelSpec spec = *model::ModelSpec::Create(FleetSetup().model);
  EXPECT_THAT(std::string(spec.Freeze({"h.9.*"}).message()), HasSubstr("model.freeze: \"h.9.*\" fits no tensor"));
  EXPECT_THAT(std::string(spec.Freeze({"*"}).message()), HasSubstr("leaves no tensor to train"));
}

}  // namespace
}  // namespace zerofleet::zero
