// Fleets on emulated GPUs whose streams run late, early and past each other, as a seed decides: the result must equal
// that of streams that run at once, to the bit. An event or a wait that is missing in engine, gather, reduce or a
// communicator shows here as a different loss, or as NaN.
//
// ZEROFLEET_STREAM_SEEDS says how many seeds are tried (4), ZEROFLEET_STREAM_FIRST_SEED which is the first (1). A seed
// fixes what the scheduler does with the work it is given; the timing of host threads still varies from run to run.
#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/emulation/fast_device.h"
#include "worker/device/cuda/emulation/machine.h"
#include "worker/zero/deferred_streams_testing.h"
#include "worker/zero/disagreement.h"

namespace zerofleet::zero {
namespace {

using device::cuda::emulation::FastDevice;

// The host may use its memory again as soon as a copy has been requested, in both directions.
TEST_F(DeferredStreams, PageableMemoryIsCopiedBeforeTheCallReturns) {
  UnderEverySeed(
      [] {
        FastDevice device(0);
        const auto stream = device.CreateStream().value();
        const auto memory = device.Reserve(sizeof(int)).value();
        std::vector<int> seen;
        for (int i = 0; i < 20; ++i) {
          int value = i, back = -1;
          device.Copy(*stream, memory->data(), &value, sizeof value);
          value = -1;
          device.Copy(*stream, &back, memory->data(), sizeof back);
          seen.push_back(back);
        }
        return seen;
      },
      "pageable memory");
}

TEST_F(DeferredStreams, EveryStageOverNccl) { ExpectEveryStage(true, 1); }
TEST_F(DeferredStreams, EveryStageOverNcclWithMicroBatches) { ExpectEveryStage(true, 2); }
TEST_F(DeferredStreams, EveryStageThroughStaging) { ExpectEveryStage(false, 2); }

// States on the host: gradients and parameters cross on streams of their own, beside the compute stream.
TEST_F(DeferredStreams, OffloadOverNccl) {
  for (const int64_t micro_batches : {1, 2}) {
    FleetSetup setup = Fleet(true);
    setup.placement = kStatesOnHost;
    setup.micro_batches = micro_batches;
    for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
      TrainUnderEverySeed(setup, absl::StrCat("stage ", setup.stage, ", ", micro_batches, " micro-batches"));
    }
  }
}

// Parameters on the host too, and states in a file: tiles pass through the host's memory both ways.
TEST_F(DeferredStreams, OffloadOfEverythingOverNccl) {
  for (const bool in_file : {false, true}) {
    for (const bool parameters : {false, true}) {
      if (!in_file && !parameters) continue;
      FleetSetup setup = Fleet(true);
      setup.placement = {.residence = StatePlacement::Residence::kHost, .parameters_on_host = parameters};
      if (in_file) setup.states_dir = testing::TempDir();
      setup.micro_batches = 2;
      setup.stage = parameters ? 3 : 2;
      const std::string what = absl::StrCat(in_file ? "in a file" : "", parameters ? ", parameters" : "");
      TrainUnderEverySeed(setup, what);
      FleetSetup states_alone = setup;
      states_alone.placement = kStatesOnHost;
      states_alone.states_dir.clear();
      EXPECT_EQ(TrainFleet(setup).states, TrainFleet(states_alone).states) << what;
    }
  }
}

// Late updates are computed beside the next step, whose passes use the older parameters.
TEST_F(DeferredStreams, LateUpdatesOverNccl) {
  for (const bool looks_ahead : {false, true}) {
    FleetSetup setup = Fleet(true);
    setup.placement = kStatesOnHost;
    setup.delay_after = 1;
    setup.looks_ahead = looks_ahead;
    setup.flushes = true;
    setup.steps = 6;
    setup.micro_batches = looks_ahead ? 2 : 1;  // several are summed in memory that stays on the device
    for (setup.stage = 1; setup.stage <= 3; ++setup.stage) {
      TrainUnderEverySeed(setup, absl::StrCat("stage ", setup.stage, looks_ahead ? ", looking ahead" : ""));
    }
  }
}

// The ranks exchange matrices in the middle of the update, with memory that each unit uses again.
TEST_F(DeferredStreams, Muon) {
  for (const bool nccl : {true, false}) {
    FleetSetup setup = Fleet(nccl);
    setup.optimizer = "muon";
    setup.ema_decay = 0.75;
    FleetSetup on_cpu = setup;
    on_cpu.make_device = nullptr;
    on_cpu.make_group = nullptr;
    const auto wanted = TrainFleet(on_cpu).states;
    for (setup.stage = 0; setup.stage <= 3; ++setup.stage) {
      const std::string what = absl::StrCat("stage ", setup.stage, nccl ? ", nccl" : ", staged");
      EXPECT_EQ(TrainFleet(setup).states, wanted) << what;
      TrainUnderEverySeed(setup, what);
    }
  }
}

TEST_F(DeferredStreams, MuonOnTheHost) {
  for (const bool nccl : {true, false}) {
    FleetSetup setup = Fleet(nccl);
    setup.optimizer = "muon";
    setup.micro_batches = 2;
    setup.stage = 2;
    const auto on_device = TrainFleet(setup).states;
    setup.placement = kStatesOnHost;
    EXPECT_EQ(TrainFleet(setup).states, on_device);
    TrainUnderEverySeed(setup, nccl ? "nccl" : "staged");
    setup.stage = 3;
    setup.states_dir = testing::TempDir();
    setup.placement.parameters_on_host = true;
    EXPECT_EQ(TrainFleet(setup).states, on_device);
    TrainUnderEverySeed(setup, absl::StrCat("everything, ", nccl ? "nccl" : "staged"));
  }
}

// One exchange more, of the parts of all matrices.
TEST_F(DeferredStreams, MuonInTensorGroups) {
  device::cuda::emulation::SetMachine({.gpus = 4});
  FleetSetup setup = Fleet(true);
  setup.optimizer = "muon";
  setup.tensor = 2;
  setup.steps = 2;
  for (const bool on_host : {false, true}) {
    setup.stage = on_host ? 2 : 0;
    if (on_host) setup.placement = kStatesOnHost;
    for (; setup.stage <= 3; setup.stage += 2) {
      UnderEverySeed([&] { return TrainFleet(setup).states; },
                     absl::StrCat("stage ", setup.stage, on_host ? " on the host" : ""));
    }
  }
}

// Where documents start is copied with their tokens.
TEST_F(DeferredStreams, PackedDocumentsOverNccl) {
  FleetSetup setup = Fleet(true);
  setup.micro_batches = 2;
  const std::vector<double> plain = TrainFleet(setup).losses;
  setup.packed = true;
  EXPECT_NE(TrainFleet(setup).losses, plain);
  for (setup.stage = 0; setup.stage <= 3; ++setup.stage) {
    TrainUnderEverySeed(setup, absl::StrCat("stage ", setup.stage));
  }
}

// The average is updated where the weights are: on the device, on the host, or some on each.
TEST_F(DeferredStreams, AverageOfTheWeights) {
  FleetSetup setup = Fleet(true);
  setup.ema_decay = 0.75;
  for (setup.stage = 0; setup.stage <= 3; ++setup.stage) {
    TrainUnderEverySeed(setup, absl::StrCat("stage ", setup.stage));
  }
  setup.stage = 2;
  const auto on_device = TrainFleet(setup).states;
  EXPECT_NE(on_device.back(), on_device.front());
  setup.placement = kStatesOnHost;
  EXPECT_EQ(TrainFleet(setup).states, on_device);
  setup.placement.fraction = 0.5;
  EXPECT_EQ(TrainFleet(setup).states, on_device);
  TrainUnderEverySeed(setup, "half on the host");
}

// Digests of what the stream has not written yet, or has overwritten, would be of something else, and differ.
TEST_F(DeferredStreams, ChecksOfTheRanks) {
  for (const bool nccl : {false, true}) {
    FleetSetup setup = Fleet(nccl);
    setup.checks = {.parameters = true, .replay = true};
    setup.check_every = 2;
    for (setup.stage = 0; setup.stage <= 3; ++setup.stage) {
      TrainUnderEverySeed(setup, absl::StrCat("stage ", setup.stage, nccl ? ", nccl" : ", staged"));
    }
  }
}

// The rank whose numbers are changed is found on a GPU too.
TEST_F(DeferredStreams, ChecksNameTheRank) {
  device::cuda::emulation::SetMachine({.gpus = 3});
  for (const StepChecks checks : {StepChecks{.parameters = true}, StepChecks{.replay = true}}) {
    FleetSetup setup = Fleet(true);
    setup.model = model::TestModelConfig(3, 24, 3, 8, 53);
    setup.world_size = 3;
    setup.global_sequences = 6;
    setup.stage = 1;
    setup.checks = checks;
    setup.faulty_rank = 1;
    RunFleet(setup, [&](TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
      absl::Status failure;
      for (int64_t step = 1; step <= setup.steps && failure.ok(); ++step) failure = rank.TryStep(step).status();
      const std::optional<v1::Disagreement> verdict = DisagreementOf(failure);
      ASSERT_TRUE(verdict) << failure;
      EXPECT_THAT(verdict->ranks(), testing::ElementsAre(1));
    });
  }
}

// What a tensor's histogram is drawn from.
struct DrawnTensor {
  std::string tensor;
  std::array<int64_t, Spread::kBuckets> counts;
  double least, most, sum, squares;
  bool operator==(const DrawnTensor&) const = default;
};

// Weights and gradients of every third step, from rank 0, and the norms; the steps before are launched one ahead.
std::pair<std::vector<DrawnTensor>, std::vector<double>> DrawThirds(const FleetSetup& setup) {
  std::vector<DrawnTensor> drawn;
  std::vector<double> norms;
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    const bool tells = rank.communicator().rank() == 0;
    for (int64_t step = 1; step <= setup.steps; ++step) {
      ZF_CHECK(rank.Launch(step).ok());
      const int left = step % 3 == 0 ? 0 : 1;
      while (rank.engine().launched() > left) {
        const absl::StatusOr<StepResult> result = rank.engine().Collect();
        ZF_CHECK(result.ok());
        if (tells) norms.push_back(result->grad_norm);
      }
      if (left > 0) continue;
      const std::vector<TensorSpreads> all = *rank.engine().TakeHistograms();
      for (const TensorSpreads& one : all) {
        for (const Spread& of : {one.weights, one.gradients}) {
          if (tells) drawn.push_back({one.tensor, of.counts, of.least, of.most, of.sum.Value(), of.squares.Value()});
        }
      }
    }
  });
  return {drawn, norms};
}

// Gradients are counted while later ones are made, weights when all updates are done, also those of a step whose loss
// scale the step before it has halved; and the counts are those of a device that is the host.
TEST_F(DeferredStreams, Histograms) {
  for (const bool offloads : {false, true}) {
    for (int stage = offloads ? 1 : 0; stage <= 3; ++stage) {
      FleetSetup setup = Fleet(/*nccl=*/stage != 2);
      setup.stage = stage;
      setup.dtype = device::DType::kF16;
      setup.histograms = true;
      setup.steps = 6;
      setup.tokens = [](int64_t step) { return step % 3 == 2 ? int64_t{1} : int64_t{24}; };
      if (offloads) setup.placement = kStatesOnHost;
      const std::string what = absl::StrCat("stage ", stage, offloads ? ", states on the host" : "");
      UnderEverySeed(
          [&] {
            auto result = DrawThirds(setup);
            for (double& norm : result.second) norm = std::isfinite(norm) ? norm : -1;
            return result;
          },
          what);
      const auto [drawn, norms] = DrawThirds(setup);
      EXPECT_FALSE(std::isfinite(norms[1])) << what;
      EXPECT_TRUE(std::isfinite(norms[5])) << what << norms[5];
      FleetSetup on_cpu = setup;
      on_cpu.make_device = nullptr;
      on_cpu.make_group = nullptr;
      EXPECT_EQ(DrawThirds(on_cpu).first, drawn) << what;
    }
  }
}

// Adapters are used between blocks, and their units come behind all others.
TEST_F(DeferredStreams, AdaptersWithOffloadOverNccl) {
  FleetSetup setup = Fleet(true);
  setup.model.mutable_lora()->set_rank(2);
  setup.model.mutable_lora()->set_alpha(4);
  setup.placement = kStatesOnHost;
  setup.stage = 3;
  setup.steps = 4;
  TrainUnderEverySeed(setup, "adapters");
}

// The inputs of two of four blocks go to the host and come back on a stream of their own.
TEST_F(DeferredStreams, InputsOnTheHost) {
  FleetSetup setup = Fleet(true);
  setup.model = model::TestModelConfig(4, 8, 2, 6, 17);
  setup.micro_batches = 2;
  setup.checkpointing = {.segment = 1, .offload = true};
  UnderEverySeed([&] { return TrainFleet(setup).states; }, "inputs on the host");
}

// Sums in two levels pass through more buffers: for a team's sums, and for the other teams'.
TEST_F(DeferredStreams, TeamsOverNccl) {
  device::cuda::emulation::SetMachine({.gpus = 4});
  FleetSetup setup = Fleet(true);
  setup.world_size = 4;
  setup.steps = 2;
  setup.make_group = [](const char* name, const auto& devices) { return NcclGroup(name, devices, 2); };
  for (const int stage : {1, 3}) {
    setup.stage = stage;
    UnderEverySeed([&] { return TrainFleet(setup).master(); }, absl::StrCat("stage ", stage, ", two teams of two"));
  }
}

// Two tensor groups of two ranks: the model's own sums and gathers are between its ops, on streams of another group.
TEST_F(DeferredStreams, TensorGroupsOverNccl) {
  device::cuda::emulation::SetMachine({.gpus = 4});
  FleetSetup setup = Fleet(true);
  setup.model = model::TestModelConfig(3, 8, 2, 6, 17);
  setup.tensor = 2;
  setup.steps = 2;
  setup.checkpointing = {.segment = 1};
  for (const bool sequence : {false, true}) {
    setup.sequence = sequence;
    setup.checkpointing.partition = !sequence;
    setup.stage = sequence ? 3 : 1;
    UnderEverySeed([&] { return TrainFleet(setup).states; }, sequence ? "sequences divided" : "sequences whole");
  }
}

// The sum over both ranks, after a step whose last gathers are still under way.
TEST_F(DeferredStreams, Evaluation) {
  for (const int stage : {0, 2, 3}) {
    FleetSetup setup = Fleet(true);
    setup.stage = stage;
    UnderEverySeed(
        [&] {
          std::vector<double> sums(setup.world_size);
          RunFleet(setup, [&](TestRank& rank) {
            ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
            rank.Step(1);
            sums[rank.layout().options().rank] =
                rank.engine()
                    .EvaluateLossSum(2,
                                     [&](int64_t pass) -> absl::StatusOr<EvaluationBatch> {
                                       return EvaluationBatch{*rank.Batch(pass, 0), true};
                                     })
                    .value();
          });
          return sums;
        },
        absl::StrCat("stage ", stage));
  }
}

// A first pass loads every kernel with no collective in flight, where loading can deadlock; it changes no bit and
// counts no byte.
TEST_F(DeferredStreams, WarmUpLoadsEveryOpBeforeTheFirstStep) {
  for (const int stage : {0, 2, 3}) {
    FleetSetup setup = Fleet(true);
    setup.stage = stage;
    setup.micro_batches = 2;
    const int64_t tokens = setup.global_sequences * setup.model.context();
    device::cuda::emulation::ScheduleBySeed(1);
    const std::vector<double> expected = TrainFleet(setup).losses;
    RunFleet(setup, [&](TestRank& rank) {
      const auto& ops = static_cast<FastDevice&>(rank.device()).ops();
      // The last pass is not full.
      const auto evaluation = [&](int64_t pass) -> absl::StatusOr<EvaluationBatch> {
        model::MicroBatch batch = *rank.Batch(pass, 0);
        if (pass == 1) batch.sequences = 1;
        return EvaluationBatch{batch, true};
      };
      ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
      ZF_CHECK(rank.engine()
                   .WarmUp(
                       {1, 1e-2, tokens, 0}, [&](int, int64_t micro) { return rank.Batch(1, micro); }, 2, evaluation)
                   .ok());
      for (const auto& [operation, totals] : rank.communicator().totals()) EXPECT_EQ(totals.bytes, 0);
      std::vector<double> losses;
      for (int64_t step = 1; step <= setup.steps; ++step) losses.push_back(rank.Step(step).loss);
      ZF_CHECK(rank.engine().EvaluateLossSum(2, evaluation).ok());
      EXPECT_EQ(losses, expected) << "stage " << stage;
      EXPECT_EQ(ops.loaded_beside_collectives(), 0) << "stage " << stage;
    });
    device::cuda::emulation::ScheduleEagerly();
  }
}

// What a rank keeps of its state: vectors and the step's control.
struct Kept {
  std::vector<std::vector<float>> vectors;
  device::StepControl control;
};

Kept Keep(TestRank& rank) {
  Kept kept;
  for (const device::Tensor& vector : rank.engine().state().vectors()) {
    kept.vectors.push_back(rank.Read(vector.data, rank.layout().optimizer_elements()));
  }
  kept.control = rank.engine().control();
  return kept;
}

// Two steps, then all state moved to another fleet, then two more steps: the result is that of four without a break.
TEST_F(DeferredStreams, Resume) {
  for (const auto& [stage, optimizer] : {std::pair(0, "adamw"), {2, "adamw"}, {3, "adamw"}, {3, "muon"}}) {
    FleetSetup setup = Fleet(true);
    setup.stage = stage;
    setup.optimizer = optimizer;
    setup.steps = 4;
    const std::vector<double> whole = TrainFleet(setup).losses;
    UnderEverySeed(
        [&] {
          std::vector<Kept> kept(setup.world_size);
          std::vector<double> losses;
          const auto note = [&](TestRank& rank, double loss) {
            if (rank.layout().options().rank == 0) losses.push_back(loss);
          };
          RunFleet(setup, [&](TestRank& rank) {
            ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
            for (const int64_t step : {1, 2}) note(rank, rank.Step(step).loss);
            kept[rank.layout().options().rank] = Keep(rank);
          });
          RunFleet(setup, [&](TestRank& rank) {
            const Kept& from = kept[rank.layout().options().rank];
            const optim::StateTensors& to = rank.engine().state().vectors();
            for (size_t v = 0; v < to.size(); ++v) rank.Write(to[v].data, from.vectors[v]);
            ZF_CHECK(rank.engine().PublishLoadedState(from.control).ok());
            for (const int64_t step : {3, 4}) note(rank, rank.Step(step).loss);
          });
          EXPECT_EQ(losses, whole) << setup.optimizer << ", stage " << setup.stage;
          return losses;
        },
        absl::StrCat(optimizer, ", stage ", stage));
  }
}

}  // namespace
}  // namespace zerofleet::zero
