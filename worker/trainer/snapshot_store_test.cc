// What a store accepts, keeps, gives out and refuses; and snapshots on their way between two stores.
#include "worker/trainer/snapshot_store.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/known_cpu_testing.h"
#include "worker/trainer/snapshot_transfer.h"
#include "worker/trainer/state_sink.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGeneration = 5;

class SnapshotStoreTest : public testing::Test {
 protected:
  // One rank of a small model, in a view in which it is rank 0 of 3 and keeps the copies of rank 2.
  void WithRank(const std::function<void(zero::TestRank&)>& body) {
    zero::FleetSetup setup{.model = model::TestModelConfig(1, 8, 2, 6, 17), .stage = 2, .global_sequences = 2};
    zero::RunFleet(setup, [&](zero::TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
      bytes_ = zero::TrainingState::StoredBytes(rank.layout());
      body(rank);
      store_.Release();
    });
  }

  SnapshotPlace Place(int rank, int owner) const {
    SnapshotPlace place{
        .generation = kGeneration, .rank = rank, .world_size = 3, .bytes = bytes_, .most_bytes = bytes_};
    place.replica_owner = owner;
    place.replica_bytes = bytes_;
    place.config.set_steps(100);
    return place;
  }

  static std::unique_ptr<memory::Arena> Arena(zero::TestRank& rank, int64_t bytes) {
    return Arena(rank.device(), bytes);
  }
  static std::unique_ptr<memory::Arena> Arena(device::Device& device, int64_t bytes) {
    memory::MemoryPlan plan;
    for (int i = 0; i < zero::kSnapshotsKept; ++i) {
      for (const std::string& row : {zero::OwnSnapshotRow(i), zero::ReplicaRow(i)}) {
        plan.rows.push_back({memory::Space::kHost, memory::Category::kBuffers, row, bytes, /*late=*/true});
      }
    }
    return *memory::Arena::Create(plan, memory::Space::kHost, device);
  }

  static v1::CheckpointManifest ManifestOf(int64_t step, uint64_t generation = kGeneration) {
    v1::CheckpointManifest manifest;
    manifest.set_step(step);
    manifest.set_generation(generation);
    manifest.set_world_size(3);
    manifest.mutable_config()->set_steps(100);
    manifest.mutable_data_cursor()->set_samples_consumed(12 * step);
    return manifest;
  }

  v1::ReplicaHeader Header(int64_t step) const {
    v1::ReplicaHeader header;
    header.set_rank(2);
    header.set_bytes(bytes_);
    *header.mutable_manifest() = ManifestOf(step);
    return header;
  }

  static std::vector<float> MasterOf(zero::TestRank& rank) {
    return rank.Read(rank.engine().state().master(), rank.spec().parameters());
  }

  static std::vector<int64_t> StepsOf(const SnapshotStore& store, int rank) {
    std::vector<int64_t> steps;
    for (const v1::SnapshotShard& shard : store.Held()) {
      if (shard.rank() == rank) steps.push_back(shard.snapshot().step());
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }

  static absl::Status Pass(OutgoingSnapshot& from, IncomingSnapshot& to,
                           const std::function<void(v1::ReplicaPiece&)>& on_the_way = nullptr) {
    while (true) {
      ZF_ASSIGN_OR_RETURN(std::optional<v1::ReplicaPiece> piece, from.Next());
      if (!piece) return absl::OkStatus();
      if (on_the_way) on_the_way(*piece);
      ZF_RETURN_IF_ERROR(to.Take(*piece));
    }
  }

  int64_t bytes_ = 0;
  SnapshotStore store_;
};

TEST_F(SnapshotStoreTest, TheLastTwoAreKeptAndComeBack) {
  WithRank([this](zero::TestRank& rank) {
    const auto arena = Arena(rank, bytes_);
    ASSERT_TRUE(store_.EnterView(Place(0, 2), *arena).ok());
    std::vector<std::vector<float>> masters;
    for (int64_t step = 1; step <= 3; ++step) {
      rank.Step(step);
      masters.push_back(MasterOf(rank));
      const auto shard = store_.Take(ManifestOf(step), rank.engine().state(), rank.device(), rank.stream());
      ASSERT_TRUE(shard.ok());
      EXPECT_THAT(StepsOf(store_, 0), Not(testing::Contains(step)));  // not yet
      EXPECT_TRUE(absl::IsNotFound(store_.Describe(*shard).status()));
      store_.Seal(*shard);
    }
    EXPECT_THAT(StepsOf(store_, 0), testing::ElementsAre(2, 3));
    v1::SnapshotId id;
    id.set_generation(kGeneration);
    id.set_step(2);
    const auto header = store_.CopyTo(id, rank.engine().state(), rank.device(), rank.stream());
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->manifest().data_cursor().samples_consumed(), 24);
    EXPECT_EQ(MasterOf(rank), masters[1]);
    store_.KeepOnly(id);
    EXPECT_THAT(StepsOf(store_, 0), testing::ElementsAre(2));
    id.set_generation(4);  // the same step of another view is another snapshot
    EXPECT_TRUE(absl::IsNotFound(store_.CopyTo(id, rank.engine().state(), rank.device(), rank.stream()).status()));
    store_.KeepOnly(std::nullopt);
    EXPECT_TRUE(store_.Held().empty());
  });
}

// A bit of one of the two snapshots changes: this is detected, and the snapshot is dropped. A copy made from it is
// refused.
TEST_F(SnapshotStoreTest, WhatHasChangedInMemoryIsNotLoaded) {
  WithRank([this](zero::TestRank& rank) {
    ForgetfulCpu forgetful;
    SnapshotStore owner;
    const auto a = Arena(forgetful, bytes_), b = Arena(rank, bytes_);
    ASSERT_TRUE(owner.EnterView(Place(2, 1), *a).ok());
    ASSERT_TRUE(store_.EnterView(Place(0, 2), *b).ok());
    rank.Step(1);
    const auto shard = owner.Take(ManifestOf(1), rank.engine().state(), forgetful, rank.stream());
    ASSERT_TRUE(shard.ok());
    owner.Seal(*shard);
    forgetful.Forget();
    OutgoingSnapshot sent(owner, *shard);
    ReplicaSink copies(store_);
    IncomingSnapshot kept(copies);
    EXPECT_TRUE(absl::IsDataLoss(Pass(sent, kept)));
    const std::vector<float> before = MasterOf(rank);
    const auto copied = owner.CopyTo(shard->snapshot(), rank.engine().state(), rank.device(), rank.stream());
    EXPECT_TRUE(absl::IsDataLoss(copied.status())) << copied.status();
    EXPECT_EQ(MasterOf(rank), before);
    EXPECT_TRUE(owner.Held().empty());
    owner.Release();
  });
}

// A rank's snapshot goes to the store that keeps its copies; a replacement in the rank's place fetches it from there.
TEST_F(SnapshotStoreTest, ACopyIsFetchedByTheReplacement) {
  WithRank([this](zero::TestRank& rank) {
    SnapshotStore owner, replacement;
    const auto a = Arena(rank, bytes_), b = Arena(rank, bytes_), c = Arena(rank, bytes_);
    ASSERT_TRUE(owner.EnterView(Place(2, 1), *a).ok());
    ASSERT_TRUE(store_.EnterView(Place(0, 2), *b).ok());
    rank.Step(1);
    const std::vector<float> master = MasterOf(rank);
    const auto shard = owner.Take(ManifestOf(1), rank.engine().state(), rank.device(), rank.stream());
    ASSERT_TRUE(shard.ok());
    owner.Seal(*shard);
    OutgoingSnapshot sent(owner, *shard);
    ReplicaSink copies(store_);
    IncomingSnapshot kept(copies);
    ASSERT_TRUE(Pass(sent, kept).ok());
    EXPECT_TRUE(kept.complete());
    EXPECT_THAT(StepsOf(store_, 2), testing::ElementsAre(1));

    rank.Step(2);
    SnapshotPlace later = Place(2, 1);
    later.generation = kGeneration + 1;
    ASSERT_TRUE(replacement.EnterView(later, *c).ok());
    OutgoingSnapshot served(store_, *shard);
    StateSink state(replacement, *shard, rank.engine().state(), rank.device(), rank.stream());
    IncomingSnapshot fetched(state);
    ASSERT_TRUE(Pass(served, fetched).ok());
    EXPECT_TRUE(fetched.complete());
    EXPECT_EQ(state.header().manifest().data_cursor().samples_consumed(), 12);
    EXPECT_EQ(MasterOf(rank), master);
    EXPECT_TRUE(replacement.Held().empty());  // it is only in the state
    owner.Release();
    replacement.Release();
  });
}

// The keeper may cut the part anywhere, and may lie about it.
TEST_F(SnapshotStoreTest, AReplacementBelievesNoPart) {
  WithRank([this](zero::TestRank& rank) {
    const auto arena = Arena(rank, bytes_);
    ASSERT_TRUE(store_.EnterView(Place(2, 1), *arena).ok());
    rank.Step(1);
    const auto shard = store_.Take(ManifestOf(1), rank.engine().state(), rank.device(), rank.stream());
    ASSERT_TRUE(shard.ok());
    store_.Seal(*shard);
    const std::vector<float> master = MasterOf(rank);
    const auto sink = [&](v1::SnapshotShard wanted) {
      return StateSink(store_, std::move(wanted), rank.engine().state(), rank.device(), rank.stream());
    };
    v1::ReplicaHeader header = store_.Describe(*shard)->header;
    std::string all;
    ASSERT_TRUE(store_.Read(*shard, 0, bytes_, all).ok());
    const auto bytes = std::as_bytes(std::span(all));
    rank.Step(2);

    StateSink cut = sink(*shard);
    ASSERT_TRUE(cut.Begin(header).ok());
    for (size_t at = 0; at < bytes.size(); at += 12) {
      ASSERT_TRUE(cut.Append(bytes.subspan(at, std::min<size_t>(12, bytes.size() - at))).ok());
    }
    EXPECT_TRUE(cut.End("d").ok());
    EXPECT_EQ(MasterOf(rank), master);
    EXPECT_THAT(std::string(cut.Append(bytes.first(4)).message()), HasSubstr("more than the"));

    StateSink early = sink(*shard);
    ASSERT_TRUE(early.Begin(header).ok());
    ASSERT_TRUE(early.Append(bytes.first(bytes.size() - 4)).ok());
    EXPECT_TRUE(absl::IsDataLoss(early.End("d")));
    StateSink odd = sink(*shard);
    ASSERT_TRUE(odd.Begin(header).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(odd.Append(bytes.first(6))));

    v1::SnapshotShard other = *shard;
    other.mutable_snapshot()->set_step(2);
    EXPECT_THAT(std::string(sink(other).Begin(header).message()), HasSubstr("another than was asked for"));
    header.set_bytes(bytes_ - 4);
    EXPECT_THAT(std::string(sink(*shard).Begin(header).message()), HasSubstr("bytes, expected"));
  });
}

TEST_F(SnapshotStoreTest, WhatDoesNotBelongHereIsRefused) {
  WithRank([this](zero::TestRank& rank) {
    const auto refused = [this](const v1::ReplicaHeader& header) {
      return std::string(store_.BeginReplica(header).status().message());
    };
    EXPECT_THAT(refused(Header(1)), HasSubstr("in no view"));
    const auto arena = Arena(rank, bytes_);
    ASSERT_TRUE(store_.EnterView(Place(0, 2), *arena).ok());
    v1::ReplicaHeader header = Header(1);
    header.mutable_manifest()->set_generation(kGeneration - 1);
    EXPECT_THAT(refused(header), HasSubstr("is of generation 4, this worker in 5"));
    header = Header(1);
    header.set_rank(1);
    EXPECT_THAT(refused(header), HasSubstr("is of rank 1, expected 2"));
    header = Header(1);
    header.set_bytes(bytes_ + 1);
    EXPECT_THAT(refused(header), HasSubstr("bytes, expected"));
    header = Header(1);
    header.mutable_manifest()->set_world_size(2);
    EXPECT_THAT(refused(header), HasSubstr("has world size 2, expected 3"));
    EXPECT_THAT(refused(Header(101)), HasSubstr("beyond the run's 100"));
    header = Header(1);
    header.mutable_manifest()->mutable_config()->set_seed(9);
    EXPECT_THAT(refused(header), HasSubstr("another configuration"));

    const uint64_t transfer = store_.BeginReplica(Header(3)).value();
    const std::vector<std::byte> all(static_cast<size_t>(bytes_));
    EXPECT_TRUE(absl::IsInvalidArgument(store_.Append(transfer, std::vector<std::byte>(all.size() + 1))));
    EXPECT_TRUE(store_.Append(transfer, all).ok());
    EXPECT_TRUE(store_.End(transfer, "d").ok());
    EXPECT_THAT(refused(Header(3)), HasSubstr("that of step 3 is held already"));
    const uint64_t partial = store_.BeginReplica(Header(4)).value();
    EXPECT_TRUE(absl::IsDataLoss(store_.End(partial, "d")));
    EXPECT_THAT(StepsOf(store_, 2), testing::ElementsAre(3));  // the previous one is still there
    const uint64_t late = store_.BeginReplica(Header(5)).value();
    store_.LeaveView();
    EXPECT_TRUE(absl::IsAborted(store_.Append(late, all)));
    EXPECT_THAT(StepsOf(store_, 2), testing::ElementsAre(3));
  });
}

TEST_F(SnapshotStoreTest, AChangedByteOrAPieceOutOfOrderIsFound) {
  WithRank([this](zero::TestRank& rank) {
    SnapshotStore owner;
    const auto a = Arena(rank, bytes_), b = Arena(rank, bytes_);
    ASSERT_TRUE(owner.EnterView(Place(2, 1), *a).ok());
    ASSERT_TRUE(store_.EnterView(Place(0, 2), *b).ok());
    const auto shard = owner.Take(ManifestOf(1), rank.engine().state(), rank.device(), rank.stream());
    owner.Seal(*shard);
    OutgoingSnapshot sent(owner, *shard);
    ReplicaSink copies(store_);
    IncomingSnapshot changed(copies);
    const absl::Status status = Pass(sent, changed, [](v1::ReplicaPiece& piece) {
      if (piece.has_data()) (*piece.mutable_data())[0] ^= 1;
    });
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_FALSE(changed.complete());
    EXPECT_TRUE(store_.Held().empty());

    v1::ReplicaPiece data;
    data.set_data("x");
    IncomingSnapshot headless(copies);
    EXPECT_TRUE(absl::IsInvalidArgument(headless.Take(data)));
    IncomingSnapshot large(copies);
    v1::ReplicaPiece header;
    *header.mutable_header() = Header(2);
    ASSERT_TRUE(large.Take(header).ok());
    EXPECT_TRUE(absl::IsInvalidArgument(large.Take(header)));  // a second header
    data.set_data(std::string(kSnapshotPieceBytes + 1, 'x'));
    EXPECT_THAT(std::string(large.Take(data).message()), HasSubstr("at most 1048576 are allowed"));
    owner.Release();
  });
}

}  // namespace
}  // namespace zerofleet::trainer
