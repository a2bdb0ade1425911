// Saves that are written from the live states: they always hold the states of one step, and only the update waits for
// them.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/file_calls_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/trainer/checkpointer.h"
#include "worker/trainer/state_pieces.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::trainer {
namespace {

using ::testing::HasSubstr;

// What a rank stores, in the order of its file.
std::string Stored(zero::TestRank& rank) {
  std::string bytes;
  zero::TrainingState& state = rank.engine().state();
  for (const device::Tensor& vector : state.vectors()) {
    for (const coordinator::PlacedRange& range : state.RangesToStore()) {
      const std::vector<float> values = rank.Read(vector.Offset(range.offset).data, range.elements());
      bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    }
  }
  return bytes;
}

struct Case {
  const char* name;
  zero::FleetSetup setup;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&cases](const char* name, int stage, int world_size) -> zero::FleetSetup& {
    cases.push_back(
        {name, {.model = model::TestModelConfig(2, 16, 2, 6, 32), .stage = stage, .world_size = world_size}});
    return cases.back().setup;
  };
  add("stage 0", 0, 2);
  add("stage 1", 1, 3);
  add("stage 2", 2, 2);
  add("stage 3", 3, 3);
  add("stage 2, offload", 2, 2).placement = zero::kStatesOnHost;
  add("stage 3, offload", 3, 2).placement = zero::kStatesOnHost;
  add("bf16", 2, 2).dtype = device::DType::kBF16;
  add("sgd", 1, 2).optimizer = "sgd";
  add("tensor 2", 2, 2).tensor = 2;
  add("tensor 2, offload", 3, 1).tensor = 2;
  cases.back().setup.placement = zero::kStatesOnHost;
  zero::FleetSetup& delayed = add("delayed", 2, 2);
  delayed.placement = zero::kStatesOnHost;
  delayed.delay_after = 1;
  return cases;
}

// Reads all pieces as WriteShard does, slowly enough for an update that does not wait to overwrite the last pieces.
std::string ReadAll(StatePieces& pieces, size_t last_vector, const absl::Notification& stepped) {
  std::string all;
  for (int waits = 0; true;) {
    if (all.size() >= last_vector && waits++ < 3) stepped.WaitForNotificationWithTimeout(absl::Milliseconds(3));
    const absl::StatusOr<std::span<const std::byte>> piece = pieces.Next();
    ZF_CHECK(piece.ok());
    if (piece->empty()) return all;
    all.append(reinterpret_cast<const char*>(piece->data()), piece->size());
  }
}

// Pieces in place, and through buffers of which some are smaller than any shard.
TEST(StatePieces, AreOfTheirStepWhileTheNextOnesRun) {
  for (const Case& each : Cases()) {
    for (const int64_t staging_bytes : {0, 2 * 64, 2 * 4096}) {
      SCOPED_TRACE(absl::StrCat(each.name, ", staging ", staging_bytes));
      zero::RunFleet(each.setup, [&](zero::TestRank& rank) {
        ZF_CHECK(rank.engine().Initialize(each.setup.seed).ok());
        rank.Step(1);
        const std::string expected = Stored(rank);
        const std::unique_ptr<device::Stream> copies = *rank.device().CreateStream();
        std::vector<std::byte> staging(static_cast<size_t>(staging_bytes));
        const std::atomic<bool> stopping = false;
        const size_t vectors = rank.engine().state().vectors().size();
        absl::Notification stepped;
        std::string got;
        {
          StatePieces pieces(rank.engine().state(), rank.device(), staging_bytes > 0 ? copies.get() : nullptr, staging,
                             stopping);
          std::thread writer([&] {
            got = ReadAll(pieces, expected.size() / vectors * (vectors - 1), stepped);
            pieces.End();
          });
          rank.Step(2);
          rank.Step(3);
          stepped.Notify();
          writer.join();
        }
        EXPECT_EQ(Digest128(got), Digest128(expected));
        EXPECT_NE(Digest128(Stored(rank)), Digest128(expected)) << "no update came";
      });
    }
  }
}

class StreamedSaves : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(CreateDirectories(directory_).ok()); }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  struct Outcome {
    std::optional<v1::ShardWritten> written;  // read after the checkpointer has ended, or after `told`
    absl::Notification told;
  };
  std::unique_ptr<Checkpointer> Make(zero::TestRank& rank, bool live) {
    snapshot_.EnterView(zero::TrainingState::StoredBytes(rank.layout()), rank.host_arena());
    return std::make_unique<Checkpointer>(0, rank.layout(), rank.engine().state(), rank.device(), rank.stream(),
                                          rank.host_arena(), snapshot_, Clock::Real(),
                                          live ? std::optional<LiveStates>(LiveStates()) : std::nullopt);
  }
  void Save(Checkpointer& checkpointer, const std::string& name, Outcome& outcome) {
    v1::CheckpointManifest manifest;
    manifest.set_step(1);
    const auto saved = checkpointer.Save(JoinPath(directory_, name), manifest, [&](v1::ShardWritten written) {
      outcome.written = std::move(written);
      outcome.told.Notify();
    });
    ASSERT_TRUE(saved.ok()) << saved.status();
  }

  const std::string directory_ = JoinPath(testing::TempDir(), absl::StrCat("zerofleet_streamed_saves_", getpid()));
  Snapshot snapshot_{zero::kSnapshotRow};
};

TEST_F(StreamedSaves, TheFileIsThatOfASnapshot) {
  zero::FleetSetup setup{.model = model::TestModelConfig(2, 12, 3, 6, 31), .stage = 2};
  zero::RunFleet(setup, [&](zero::TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    rank.Step(1);
    Outcome copied, streamed;
    const int64_t reserved = rank.host_arena().figures().reserved;
    const std::unique_ptr<Checkpointer> from_states = Make(rank, true), from_snapshot = Make(rank, false);
    Save(*from_states, "streamed", streamed);
    streamed.told.WaitForNotification();
    EXPECT_EQ(rank.host_arena().figures().reserved, reserved) << "a copy was made";
    Save(*from_snapshot, "copied", copied);
    copied.told.WaitForNotification();
    ASSERT_TRUE(streamed.written->ok()) << streamed.written->failure().message();
    EXPECT_EQ(streamed.written->file().SerializeAsString(), copied.written->file().SerializeAsString());
    const auto contents = [&](const char* name) {
      return ReadSmallFile(JoinPath(directory_, absl::StrCat(name, "/", checkpoint::ShardFileName(0))), 1 << 24)
          .value();
    };
    EXPECT_EQ(Digest128(contents("streamed")), Digest128(contents("copied")));
    EXPECT_EQ(Digest128(contents("streamed")), streamed.written->file().xxh3_128());
  });
}

// A disk that takes its time over one piece: the step goes on up to its update, waits there, and is reported as
// stalled.
TEST_F(StreamedSaves, ASlowDiskHoldsUpTheUpdateAlone) {
  zero::FleetSetup setup{.model = model::TestModelConfig(2, 12, 3, 6, 31), .stage = 2};
  zero::RunFleet(setup, [&](zero::TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    rank.Step(1);
    const std::string expected = Stored(rank);
    const std::unique_ptr<Checkpointer> checkpointer = Make(rank, true);
    FileCallLog files(directory_);
    files.HoldWrite(checkpoint::ShardFileName(0), 1000);
    Outcome outcome;
    Save(*checkpointer, "1", outcome);
    files.WaitUntilHeld();
    absl::Notification updated;
    std::thread step([&] {
      ZF_CHECK(rank.TryStep(2).ok());
      updated.Notify();
    });
    while (!rank.engine().state().gate().holding() && !updated.HasBeenNotified()) std::this_thread::yield();
    EXPECT_FALSE(updated.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
    files.ReleaseWrite();
    step.join();
    outcome.told.WaitForNotification();
    ASSERT_TRUE(outcome.written->ok());
    EXPECT_GT(outcome.written->stall_seconds(), 0.02);
    const std::string path = JoinPath(directory_, absl::StrCat("1/", checkpoint::ShardFileName(0)));
    const std::string contents = ReadSmallFile(path, 1 << 24).value();
    EXPECT_EQ(Digest128(contents.substr(contents.size() - expected.size())), Digest128(expected));
  });
}

// The update need not wait until the file is durable: it is done while the file is still being synced.
TEST_F(StreamedSaves, AnFsyncHoldsNothingUp) {
  zero::FleetSetup setup{.model = model::TestModelConfig(2, 12, 3, 6, 31), .stage = 3};
  zero::RunFleet(setup, [&](zero::TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    rank.Step(1);
    const std::unique_ptr<Checkpointer> checkpointer = Make(rank, true);
    FileCallLog files(directory_);
    files.HoldFsync(checkpoint::ShardFileName(0));
    Outcome outcome;
    Save(*checkpointer, "1", outcome);
    files.WaitUntilHeld();
    for (int64_t step = 2; step <= 4; ++step) rank.Step(step);
    EXPECT_FALSE(outcome.told.HasBeenNotified());
    files.ReleaseFsync();
    outcome.told.WaitForNotification();
    EXPECT_TRUE(outcome.written->ok());
  });
}

// A disk that is full half way: the save has failed, its file is gone, and training goes on as after any failed save.
TEST_F(StreamedSaves, ASaveThatFailsHalfWayReleasesTheUpdate) {
  zero::FleetSetup setup{.model = model::TestModelConfig(2, 12, 3, 6, 31), .stage = 2};
  zero::RunFleet(setup, [&](zero::TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    rank.Step(1);
    const std::unique_ptr<Checkpointer> checkpointer = Make(rank, true);
    struct rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    struct rlimit limited = before;
    limited.rlim_cur = static_cast<rlim_t>(zero::TrainingState::StoredBytes(rank.layout()) / 2);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limited), 0);
    Outcome failed;
    Save(*checkpointer, "1", failed);
    rank.Step(2);
    failed.told.WaitForNotification();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, old_handler);
    EXPECT_FALSE(failed.written->ok());
    EXPECT_THAT(failed.written->failure().message(), HasSubstr("rank-00000.safetensors: cannot write"));
    EXPECT_FALSE(FileExists(JoinPath(directory_, "1/rank-00000.safetensors")));
    EXPECT_FALSE(rank.engine().state().gate().closed());
    Outcome saved;
    Save(*checkpointer, "2", saved);
    rank.Step(3);
    saved.told.WaitForNotification();
    EXPECT_TRUE(saved.written->ok());
  });
}

// A view that is left in the middle of a save gives up its states: nothing reads them any more, and no part of a file
// is left.
TEST_F(StreamedSaves, LeavingEndsTheWrite) {
  zero::FleetSetup setup{.model = model::TestModelConfig(2, 12, 3, 6, 31), .stage = 2};
  zero::RunFleet(setup, [&](zero::TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    std::unique_ptr<Checkpointer> checkpointer = Make(rank, true);
    Outcome outcome;
    FileCallLog files(directory_);
    files.HoldWrite(checkpoint::ShardFileName(0), 1000);
    Save(*checkpointer, "1", outcome);
    files.WaitUntilHeld();
    std::thread leave([&] { checkpointer.reset(); });
    files.ReleaseWrite();
    leave.join();
    ASSERT_TRUE(outcome.told.HasBeenNotified());
    EXPECT_EQ(outcome.written->ok(), FileExists(JoinPath(directory_, "1/rank-00000.safetensors")));
    EXPECT_FALSE(rank.engine().state().gate().closed());
  });
}

TEST_F(StreamedSaves, NothingIsReadOfAViewThatIsLeft) {
  zero::FleetSetup setup{.model = model::TestModelConfig(2, 12, 3, 6, 31), .stage = 2};
  zero::RunFleet(setup, [&](zero::TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    std::atomic<bool> stopping = false;
    StatePieces pieces(rank.engine().state(), rank.device(), nullptr, {}, stopping);
    EXPECT_FALSE(pieces.Next().value().empty());
    stopping = true;
    EXPECT_EQ(pieces.Next().status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(pieces.End(), 0);
  });
}

}  // namespace
}  // namespace zerofleet::trainer
