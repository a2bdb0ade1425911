// What a snapshot holds, for how long, and which checkpoint it is taken for.
#include "worker/trainer/snapshot.h"

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/manifest.h"
#include "worker/trainer/state_loader.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::trainer {
namespace {

class SnapshotTest : public testing::Test {
 protected:
  static void WithRank(const std::function<void(zero::TestRank&, Snapshot&)>& body) {
    zero::FleetSetup setup{.model = model::TestModelConfig(1, 8, 2, 6, 17), .stage = 2, .global_sequences = 2};
    zero::RunFleet(setup, [&](zero::TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
      Snapshot snapshot(zero::kSnapshotRow);
      snapshot.EnterView(zero::TrainingState::StoredBytes(rank.layout()), rank.host_arena());
      body(rank, snapshot);
    });
  }

  static v1::CheckpointManifest ManifestOf(int64_t step, uint64_t generation) {
    v1::CheckpointManifest manifest;
    manifest.set_step(step);
    manifest.set_generation(generation);
    return manifest;
  }

  static v1::ShardFile FileOf(zero::TestRank& rank, const std::string& digest) {
    v1::ShardFile file;
    file.set_name("rank-00000.safetensors");
    file.set_xxh3_128(digest);
    checkpoint::SetStoredRanges(rank.layout().partition().StoredRanges(0), &file);
    return file;
  }

  static void Take(zero::TestRank& rank, Snapshot& snapshot, const v1::CheckpointManifest& manifest) {
    snapshot.Clear();
    const absl::StatusOr<int64_t> bytes = snapshot.FillFrom(rank.engine().state(), rank.device(), rank.stream());
    ASSERT_EQ(bytes.value(), zero::TrainingState::StoredBytes(rank.layout()));
    v1::ReplicaHeader header;
    header.set_bytes(*bytes);
    *header.mutable_manifest() = manifest;
    snapshot.Hold(std::move(header));
    snapshot.Seal(snapshot.Digest());
  }

  static std::vector<float> Copied(const Snapshot& snapshot) {
    std::vector<float> values;
    for (const std::span<const float> vector : snapshot.Vectors(3)) {
      values.insert(values.end(), vector.begin(), vector.end());
    }
    return values;
  }
};

TEST_F(SnapshotTest, TheStateComesBackAsItWas) {
  WithRank([](zero::TestRank& rank, Snapshot& snapshot) {
    rank.Step(1);
    ASSERT_TRUE(snapshot.Reserve(rank.host_arena()).ok());
    Take(rank, snapshot, ManifestOf(1, 5));
    const std::vector<float> first = Copied(snapshot);
    rank.Step(2);
    EXPECT_EQ(Copied(snapshot), first);
    ASSERT_TRUE(snapshot.CopyTo(rank.engine().state(), rank.device(), rank.stream()).ok());
    Take(rank, snapshot, ManifestOf(1, 6));
    EXPECT_EQ(Copied(snapshot), first);
  });
}

TEST_F(SnapshotTest, AChangedBitIsFoundBeforeItIsTaken) {
  WithRank([](zero::TestRank& rank, Snapshot& snapshot) {
    ASSERT_TRUE(snapshot.Reserve(rank.host_arena()).ok());
    Take(rank, snapshot, ManifestOf(1, 5));
    const std::vector<float> first = Copied(snapshot);
    const auto bytes = static_cast<size_t>(snapshot.held()->bytes());
    for (const size_t place : {size_t{0}, bytes / 2, bytes - 1}) {
      rank.Step(2);
      snapshot.memory()[place] ^= std::byte{16};
      const absl::Status status = snapshot.CopyTo(rank.engine().state(), rank.device(), rank.stream());
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("in memory of step 1 has changed since"));
      snapshot.memory()[place] ^= std::byte{16};
      EXPECT_TRUE(snapshot.CopyTo(rank.engine().state(), rank.device(), rank.stream()).ok());
      EXPECT_EQ(Copied(snapshot), first);
    }
  });
}

TEST_F(SnapshotTest, IsTakenForTheVeryFileThatItWasWrittenTo) {
  WithRank([](zero::TestRank& rank, Snapshot& snapshot) {
    const std::vector<coordinator::PlacedRange> ranges = rank.layout().partition().StoredRanges(0);
    v1::CheckpointManifest committed = ManifestOf(3, 5);
    *committed.add_files() = FileOf(rank, "aa");
    EXPECT_FALSE(IsIn(snapshot, committed, {}, ranges));
    ASSERT_TRUE(snapshot.Reserve(rank.host_arena()).ok());
    Take(rank, snapshot, ManifestOf(3, 5));
    EXPECT_FALSE(IsIn(snapshot, committed, {}, ranges));  // no file is written yet
    snapshot.SetFile(FileOf(rank, "aa"));
    EXPECT_TRUE(IsIn(snapshot, committed, {}, ranges));
    std::vector<coordinator::PlacedRange> others = ranges;
    others.back().flat_begin += 32;
    others.back().flat_end += 32;
    EXPECT_FALSE(IsIn(snapshot, committed, {}, others));
    EXPECT_FALSE(IsIn(snapshot, committed, {.index = 1, .count = 2}, ranges)) << "the same ranges, of another part";

    v1::CheckpointManifest other = committed;
    other.set_generation(6);
    EXPECT_FALSE(IsIn(snapshot, other, {}, ranges));
    other = committed;
    other.set_step(2);
    EXPECT_FALSE(IsIn(snapshot, other, {}, ranges));
    other = committed;
    other.mutable_files(0)->set_xxh3_128("ab");
    EXPECT_FALSE(IsIn(snapshot, other, {}, ranges));
    Take(rank, snapshot, ManifestOf(3, 5));  // the file is that of its earlier contents
    EXPECT_FALSE(IsIn(snapshot, committed, {}, ranges));
  });
}

TEST_F(SnapshotTest, OutlivesItsViewUnlessTheNextOwnsAnotherAmount) {
  WithRank([](zero::TestRank& rank, Snapshot& snapshot) {
    const std::vector<coordinator::PlacedRange> ranges = rank.layout().partition().StoredRanges(0);
    ASSERT_TRUE(snapshot.Reserve(rank.host_arena()).ok());
    v1::CheckpointManifest committed = ManifestOf(3, 5);
    Take(rank, snapshot, committed);
    snapshot.SetFile(FileOf(rank, "aa"));
    *committed.add_files() = FileOf(rank, "aa");
    const int64_t bytes = zero::TrainingState::StoredBytes(rank.layout());
    const auto arena_of = [&](int64_t row_bytes) {
      return *memory::Arena::Create(
          {{{memory::Space::kHost, memory::Category::kBuffers, zero::kSnapshotRow, row_bytes, /*late=*/true}}},
          memory::Space::kHost, rank.device());
    };
    const auto same = arena_of(bytes);
    snapshot.EnterView(bytes, *same);
    EXPECT_TRUE(IsIn(snapshot, committed, {}, ranges));
    EXPECT_GE(same->figures().reserved, bytes);

    const auto other = arena_of(bytes / 2);
    snapshot.EnterView(bytes / 2, *other);
    EXPECT_FALSE(snapshot.reserved());
    EXPECT_FALSE(IsIn(snapshot, committed, {}, ranges));
    EXPECT_TRUE(snapshot.Reserve(*other).ok());
  });
}

}  // namespace
}  // namespace zerofleet::trainer
