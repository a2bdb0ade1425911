// Copies that the trainer makes while the host continues, on an emulated GPU whose streams run late: tokens to the
// device, and the snapshot that a checkpoint is written from. See worker/zero/deferred_streams_test.cc.
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/file.h"
#include "base/units.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/emulation/fast_device.h"
#include "worker/device/cuda/emulation/machine.h"
#include "worker/device/cuda/emulation/streams.h"
#include "worker/trainer/checkpointer.h"
#include "worker/trainer/data_feed.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::trainer {
namespace {

using device::cuda::emulation::FastDevice;

constexpr int64_t kCopiedContext = 4, kSequences = 2;
constexpr uint64_t kSeeds = 20;

class DeferredCopies : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(CreateDirectories(directory_).ok()); }
  void TearDown() override {
    device::cuda::emulation::ScheduleEagerly();
    EXPECT_EQ(device::cuda::emulation::BusyWaits(), busy_waits_before_);
    ASSERT_TRUE(RemoveTree(directory_).ok());
  }

  const int64_t busy_waits_before_ = device::cuda::emulation::BusyWaits();
  const std::string directory_ = JoinPath(testing::TempDir(), "zerofleet_deferred_copies_" + std::to_string(getpid()));
};

// Inputs and targets of many micro-batches, and where documents start, each copied away on the stream before the next
// one replaces it.
std::vector<int32_t> Feed(const v1::Config& config) {
  constexpr int kBatches = 12;
  const int64_t count = data::ArraysPerToken(config.data()) * kSequences * kCopiedContext;
  FastDevice device(0);
  const auto stream = device.CreateStream().value();
  const auto tokens = device.Reserve(count * 4).value();
  const auto staging = device.ReserveHost(zero::kTokenStages * count * 4).value();
  const auto kept = device.Reserve(kBatches * count * 4).value();
  const auto feed = DataFeed::Open(config).value();
  feed->Attach(parallel::Mesh::OfOneNode(0, 1).data(), device, *stream, reinterpret_cast<int32_t*>(tokens->data()),
               reinterpret_cast<int32_t*>(staging->data()));
  for (int i = 0; i < kBatches; ++i) {
    const model::MicroBatch batch = feed->TrainingBatch(i + 1, 0, 0).value();
    device.Copy(*stream, kept->data() + i * count * 4, batch.inputs, count * 4);
  }
  std::vector<int32_t> all(kBatches * count);
  device.Copy(*stream, all.data(), kept->data(), static_cast<int64_t>(all.size()) * 4);
  EXPECT_TRUE(stream->Synchronize().ok());
  return all;
}

TEST_F(DeferredCopies, TokensAreStagedUntilTheyAreCopied) {
  constexpr char kTokenizer[] =
      R"({"added_tokens":[{"id":4,"content":"</s>","single_word":false,"lstrip":false,"rstrip":false,)"
      R"("normalized":false,"special":true}],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})";
  std::string tokens;
  for (int i = 0; i < 201; ++i) tokens += {static_cast<char>(i % 3 == 0 ? 4 : i), '\0'};
  const std::string path = JoinPath(directory_, "tokens.u16"), tokenizer = JoinPath(directory_, "tokenizer.json");
  ASSERT_TRUE(WriteFileAtomically(path, tokens).ok());
  ASSERT_TRUE(WriteFileAtomically(tokenizer, kTokenizer).ok());
  v1::Config config;
  *config.mutable_model() = model::TestModelConfig(1, 4, 1, kCopiedContext, 256);
  config.mutable_data()->add_train(path);
  config.mutable_data()->set_format("tokens_u16");
  config.mutable_data()->set_tokenizer(tokenizer);
  config.mutable_parallel()->set_workers(1);
  config.mutable_batch()->set_global_sequences(kSequences);
  config.mutable_batch()->set_micro_sequences(kSequences);
  for (const bool packing : {false, true}) {
    config.mutable_data()->set_packing(packing);
    const std::vector<int32_t> expected = Feed(config);
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      device::cuda::emulation::ScheduleBySeed(seed);
      ASSERT_EQ(Feed(config), expected) << "seed " << seed;
      device::cuda::emulation::ScheduleEagerly();
    }
  }
}

// Trains a step, saves, and continues training while the file is written: from a snapshot, or from the states.
std::string SavedDigest(const zero::FleetSetup& setup, const std::string& step_dir, bool streams = false) {
  std::string digest;
  zero::RunFleet(setup, [&](zero::TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    rank.Step(1);
    {
      Snapshot snapshot(zero::kSnapshotRow);
      snapshot.EnterView(zero::TrainingState::StoredBytes(rank.layout()), rank.host_arena());
      constexpr int64_t kStagingBytes = 2 * 1024;
      const std::unique_ptr<device::Reservation> staging = *rank.device().ReserveHost(kStagingBytes);
      std::optional<LiveStates> live;
      if (streams) live.emplace();
      if (streams && !rank.layout().offloads()) {
        live = LiveStates{*rank.device().CreateStream(), {staging->data(), kStagingBytes}};
      }
      Checkpointer checkpointer(0, rank.layout(), rank.engine().state(), rank.device(), rank.stream(),
                                rank.host_arena(), snapshot, Clock::Real(), std::move(live));
      v1::CheckpointManifest manifest;
      manifest.set_step(1);
      absl::Notification written;
      ZF_CHECK(checkpointer
                   .Save(step_dir, manifest,
                         [&](const v1::ShardWritten& outcome) {
                           ZF_CHECK(outcome.ok());
                           digest = outcome.file().SerializeAsString();
                           written.Notify();
                         })
                   .ok());
      rank.Step(2);
      written.WaitForNotification();
    }
  });
  return digest;
}

TEST_F(DeferredCopies, ACheckpointIsOfItsStep) {
  zero::FleetSetup setup{.model = model::TestModelConfig(1, 8, 2, 6, 17), .stage = 2, .global_sequences = 2};
  setup.make_device = [](int) { return std::make_unique<FastDevice>(0); };
  zero::FleetSetup guesses = setup;
  guesses.placement = {.residence = zero::StatePlacement::Residence::kHost,
                       .timing = zero::StatePlacement::Timing::kSpeculative};
  const std::string expected = SavedDigest(setup, JoinPath(directory_, "eager"));
  ASSERT_FALSE(expected.empty());
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    device::cuda::emulation::ScheduleBySeed(seed);
    EXPECT_EQ(SavedDigest(setup, JoinPath(directory_, "seed-" + std::to_string(seed))), expected) << "seed " << seed;
    const std::string streamed = JoinPath(directory_, "streamed-seed-" + std::to_string(seed));
    EXPECT_EQ(SavedDigest(setup, streamed, /*streams=*/true), expected) << "streamed, seed " << seed;
    const std::string guessed = JoinPath(directory_, "guessed-seed-" + std::to_string(seed));
    EXPECT_EQ(SavedDigest(guesses, guessed, /*streams=*/true), expected) << "beside a guess, seed " << seed;
    device::cuda::emulation::ScheduleEagerly();
  }
}

// The snapshot is pinned by the first save and kept; where that is more than the host can pin, the save fails and says
// so.
TEST_F(DeferredCopies, ASnapshotIsPinnedByTheFirstSave) {
  zero::FleetSetup setup{.model = model::TestModelConfig(1, 8, 2, 6, 17), .stage = 2, .global_sequences = 2};
  setup.make_device = [](int) { return std::make_unique<FastDevice>(0); };
  const int64_t snapshot_bytes = RoundUp(12 * model::ModelSpec::Create(setup.model)->parameters(), 64);
  int64_t before = 0;  // bytes that everything else has pinned
  for (const bool fits : {true, false}) {
    if (!fits) device::cuda::emulation::SetMachine({.pinned_bytes = before + snapshot_bytes - 1});
    zero::RunFleet(setup, [&](zero::TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
      std::vector<v1::ShardWritten> outcomes;  // from one thread at a time
      before = device::cuda::emulation::PinnedBytesHeld();
      {
        Snapshot snapshot(zero::kSnapshotRow);
        snapshot.EnterView(zero::TrainingState::StoredBytes(rank.layout()), rank.host_arena());
        Checkpointer checkpointer(0, rank.layout(), rank.engine().state(), rank.device(), rank.stream(),
                                  rank.host_arena(), snapshot, Clock::Real());
        for (int64_t step = 1; step <= 2; ++step) {
          v1::CheckpointManifest manifest;
          manifest.set_step(step);
          ZF_CHECK(checkpointer
                       .Save(JoinPath(directory_, std::to_string(step)), manifest,
                             [&](const v1::ShardWritten& outcome) { outcomes.push_back(outcome); })
                       .ok());
          EXPECT_EQ(device::cuda::emulation::PinnedBytesHeld() - before, fits ? snapshot_bytes : 0);
        }
      }
      ASSERT_EQ(outcomes.size(), 2u);
      for (const v1::ShardWritten& outcome : outcomes) {
        EXPECT_EQ(outcome.ok(), fits);
        EXPECT_EQ(outcome.failure().message(), fits ? ""
                                                    : "host memory for the snapshot: the host cannot pin " +
                                                          HumanBytes(snapshot_bytes) + " for the cuda device");
      }
    });
  }
  device::cuda::emulation::SetMachine({});
}

}  // namespace
}  // namespace zerofleet::trainer
