// Snapshots between two workers' services on loopback: sent and fetched, refused without the token, ended with the
// view.
#include "services/session/snapshot_client.h"

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/session/worker_service.h"
#include "worker/trainer/snapshot_store.h"
#include "worker/trainer/state_sink.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using trainer::IncomingSnapshot;
using trainer::OutgoingSnapshot;
using trainer::SnapshotStore;
using trainer::StateSink;

constexpr uint64_t kView = 5;
constexpr double kLimitSeconds = 60;

class SnapshotClientTest : public testing::Test {
 protected:
  // The owner is rank 1 of 2 and has a snapshot of step 1; rank 0 keeps its copies, behind a service.
  void WithSnapshot(const std::function<void(zero::TestRank&, const v1::SnapshotShard&)>& body) {
    // A snapshot of more than two pieces.
    zero::FleetSetup setup{.model = model::TestModelConfig(1, 128, 2, 6, 300), .stage = 2, .global_sequences = 2};
    zero::RunFleet(setup, [&](zero::TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
      bytes_ = zero::TrainingState::StoredBytes(rank.layout());
      ASSERT_GT(bytes_, 2 * trainer::kSnapshotPieceBytes);
      const auto a = Arena(rank), b = Arena(rank);
      ASSERT_TRUE(owner_.EnterView(Place(1, 0), *a).ok());
      ASSERT_TRUE(keeper_->EnterView(Place(0, 1), *b).ok());
      v1::CheckpointManifest manifest;
      manifest.set_step(1);
      manifest.set_generation(kView);
      manifest.set_world_size(2);
      manifest.mutable_config()->set_steps(9);
      const auto shard = owner_.Take(manifest, rank.engine().state(), rank.device(), rank.stream());
      ASSERT_TRUE(shard.ok());
      owner_.Seal(*shard);
      body(rank, *shard);
      owner_.Release();
      keeper_->Release();
    });
  }

  trainer::SnapshotPlace Place(int rank, int owner) const {
    trainer::SnapshotPlace place{
        .generation = kView, .rank = rank, .world_size = 2, .bytes = bytes_, .most_bytes = bytes_};
    place.replica_owner = owner;
    place.replica_bytes = bytes_;
    place.config.set_steps(9);
    return place;
  }

  std::unique_ptr<memory::Arena> Arena(zero::TestRank& rank) const {
    memory::MemoryPlan plan;
    for (int i = 0; i < zero::kSnapshotsKept; ++i) {
      for (const std::string& row : {zero::OwnSnapshotRow(i), zero::ReplicaRow(i)}) {
        plan.rows.push_back({memory::Space::kHost, memory::Category::kBuffers, row, bytes_, /*late=*/true});
      }
    }
    return *memory::Arena::Create(plan, memory::Space::kHost, rank.device());
  }

  std::unique_ptr<WorkerService> Serve(const std::string& token = "",
                                       std::shared_ptr<Refusals> refusals = nullptr) const {
    return *WorkerService::Start({.snapshots = keeper_, .token = token, .refusals = std::move(refusals)});
  }
  static std::string AddressOf(const WorkerService& service) { return absl::StrCat("127.0.0.1:", service.port()); }

  int64_t bytes_ = 0;
  SnapshotStore owner_;
  const std::shared_ptr<SnapshotStore> keeper_ = std::make_shared<SnapshotStore>();
};

TEST_F(SnapshotClientTest, ACopyGoesOutAndComesBack) {
  WithSnapshot([this](zero::TestRank& rank, const v1::SnapshotShard& shard) {
    const auto service = Serve();
    SnapshotClient client({});
    OutgoingSnapshot sent(owner_, shard);
    const absl::Status put = client.Put(AddressOf(*service), kView, kLimitSeconds, sent);
    ASSERT_TRUE(put.ok()) << put;
    ASSERT_EQ(keeper_->Held().size(), 1u);

    SnapshotStore replacement;
    const auto arena = Arena(rank);
    ASSERT_TRUE(replacement.EnterView(Place(1, 0), *arena).ok());
    StateSink state(replacement, shard, rank.engine().state(), rank.device(), rank.stream());
    IncomingSnapshot fetched(state);
    const absl::Status got = client.Get(AddressOf(*service), kView, kLimitSeconds, shard, fetched);
    ASSERT_TRUE(got.ok()) << got;
    EXPECT_TRUE(fetched.complete());

    v1::SnapshotShard other = shard;
    other.mutable_snapshot()->set_step(2);
    StateSink nothing(replacement, other, rank.engine().state(), rank.device(), rank.stream());
    IncomingSnapshot missing(nothing);
    const absl::Status not_there = client.Get(AddressOf(*service), kView, kLimitSeconds, other, missing);
    EXPECT_TRUE(absl::IsNotFound(not_there)) << not_there;
    OutgoingSnapshot again(owner_, shard);
    EXPECT_THAT(std::string(client.Put(AddressOf(*service), kView, kLimitSeconds, again).message()),
                HasSubstr("held already"));
    replacement.Release();
  });
}

TEST_F(SnapshotClientTest, AnotherFleetsWorkerIsRefused) {
  WithSnapshot([this](zero::TestRank&, const v1::SnapshotShard& shard) {
    std::vector<std::string> told;
    const auto refusals = std::make_shared<Refusals>(
        Refusals::Sinks{.count = [&](const char* cause) { told.push_back(cause); }}, Clock::Real());
    const auto service = Serve("a token of 16 characters", refusals);
    SnapshotClient stranger({.token = "another one of 16 characters"}), mate({.token = "a token of 16 characters"});
    OutgoingSnapshot first(owner_, shard), second(owner_, shard);
    const absl::Status refused = stranger.Put(AddressOf(*service), kView, kLimitSeconds, first);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_TRUE(keeper_->Held().empty());
    EXPECT_TRUE(mate.Put(AddressOf(*service), kView, kLimitSeconds, second).ok());
    EXPECT_THAT(told, ElementsAre("token"));
  });
}

TEST_F(SnapshotClientTest, CallsEndWithTheirView) {
  WithSnapshot([this](zero::TestRank&, const v1::SnapshotShard& shard) {
    const auto service = Serve();
    SnapshotClient client({});
    client.EndViewsBefore(kView + 1);
    OutgoingSnapshot snapshot(owner_, shard);
    EXPECT_TRUE(absl::IsAborted(client.Put(AddressOf(*service), kView, kLimitSeconds, snapshot)));
    EXPECT_TRUE(keeper_->Held().empty());
  });
}

TEST_F(SnapshotClientTest, AWorkerThatCanOnlyVerifyOthersSendsNothing) {
  TlsFiles tls;
  tls.ca = "ca.pem";
  SnapshotClient client({.tls = tls, .token = "a token of 16 characters"});
  OutgoingSnapshot snapshot(owner_, {});
  EXPECT_THAT(std::string(client.Put("127.0.0.1:1", kView, kLimitSeconds, snapshot).message()),
              HasSubstr("exchange snapshots under TLS only"));
}

}  // namespace
}  // namespace zerofleet::services
