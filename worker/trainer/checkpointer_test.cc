// When the snapshot's memory is reserved, and what happens to a save without that memory.
#include "worker/trainer/checkpointer.h"

#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/file.h"
#include "base/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/cpu_device.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::trainer {
namespace {

using ::testing::ElementsAre;

// Records what is reserved on the host, and refuses to reserve more than `limit` at a time.
class CountingDevice : public device::CpuDevice {
 public:
  CountingDevice() : device::CpuDevice(1) {}
  absl::StatusOr<std::unique_ptr<device::Reservation>> ReserveHost(int64_t bytes) override {
    if (bytes > limit) return absl::ResourceExhaustedError("the host cannot pin that much");
    reserved.push_back(bytes);
    return device::CpuDevice::ReserveHost(bytes);
  }
  int64_t limit = int64_t{1} << 40;
  std::vector<int64_t> reserved;
};

class CheckpointerTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(CreateDirectories(directory_).ok()); }
  void TearDown() override { ASSERT_TRUE(RemoveTree(directory_).ok()); }

  // Runs `body` on one rank of a small model that has its first weights.
  void WithRank(const std::function<void(zero::TestRank&, CountingDevice&, Checkpointer&)>& body) {
    CountingDevice* device = nullptr;
    zero::FleetSetup setup{.model = model::TestModelConfig(1, 8, 2, 6, 17), .stage = 2, .global_sequences = 2};
    setup.make_device = [&device](int) {
      auto made = std::make_unique<CountingDevice>();
      device = made.get();
      return made;
    };
    zero::RunFleet(setup, [&](zero::TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
      Snapshot snapshot(zero::kSnapshotRow);
      snapshot.EnterView(zero::TrainingState::StoredBytes(rank.layout()), rank.host_arena());
      Checkpointer checkpointer(0, rank.layout(), rank.engine().state(), rank.device(), rank.stream(),
                                rank.host_arena(), snapshot, Clock::Real());
      body(rank, *device, checkpointer);
    });
  }

  // Saves as `step` and waits until it is written.
  v1::ShardWritten Save(Checkpointer& checkpointer, int64_t step, double waited = 0) {
    v1::CheckpointManifest manifest;
    manifest.set_step(step);
    absl::Mutex mutex;
    std::optional<v1::ShardWritten> outcome;
    const auto keep = [&](v1::ShardWritten written) {
      absl::MutexLock lock(&mutex);
      EXPECT_FALSE(outcome.has_value()) << "reported twice";
      outcome = std::move(written);
    };
    const auto saved = checkpointer.Save(JoinPath(directory_, absl::StrCat(step)), manifest, keep, waited);
    EXPECT_TRUE(saved.ok()) << saved.status();
    if (!saved.ok()) return {};
    EXPECT_GE(*saved, waited);
    absl::MutexLock lock(&mutex);
    const auto written = [&outcome] { return outcome.has_value(); };
    ZF_CHECK(mutex.AwaitWithTimeout(absl::Condition(&written), absl::Seconds(60)));
    return *outcome;
  }

  static int64_t HostBuffers(zero::TestRank& rank) {
    return rank.host_arena().figures().categories[static_cast<int>(memory::Category::kBuffers)].peak;
  }

  const std::string directory_ = JoinPath(testing::TempDir(), absl::StrCat("zerofleet_checkpointer_", getpid()));
};

TEST_F(CheckpointerTest, WaitingForTheSaveBeforeCounts) {
  WithRank([this](zero::TestRank& rank, CountingDevice&, Checkpointer& checkpointer) {
    rank.Step(1);
    EXPECT_LT(Save(checkpointer, 1).stall_seconds(), 1000);
    EXPECT_GE(Save(checkpointer, 2, 1000).stall_seconds(), 1000);
  });
}

TEST_F(CheckpointerTest, TheSnapshotIsReservedByTheFirstSave) {
  WithRank([this](zero::TestRank& rank, CountingDevice& device, Checkpointer& checkpointer) {
    const int64_t snapshot = RoundUp(12 * rank.spec().parameters(), 64);
    const int64_t before = rank.host_arena().figures().reserved, peak = HostBuffers(rank);
    EXPECT_LT(before, snapshot);
    rank.Step(1);
    device.reserved.clear();  // drops the batch's reservations
    EXPECT_TRUE(checkpointer.MustReserve());
    EXPECT_TRUE(Save(checkpointer, 1).ok());
    EXPECT_FALSE(checkpointer.MustReserve());
    EXPECT_THAT(device.reserved, ElementsAre(snapshot));
    EXPECT_TRUE(Save(checkpointer, 2).ok());
    EXPECT_THAT(device.reserved, ElementsAre(snapshot));
    EXPECT_EQ(rank.host_arena().figures().reserved, before + snapshot);
    EXPECT_EQ(HostBuffers(rank), peak + 12 * rank.spec().parameters());
  });
}

// It is a failed save like any other: one report with the reason, and the state is unchanged. When there is memory
// again, a save works as usual.
TEST_F(CheckpointerTest, ASnapshotThatDoesNotFitIsOneFailedSave) {
  WithRank([this](zero::TestRank& rank, CountingDevice& device, Checkpointer& checkpointer) {
    const int64_t reserved = rank.host_arena().figures().reserved;
    device.limit = 12 * rank.spec().parameters() - 1;
    v1::ShardWritten failed = Save(checkpointer, 7);
    EXPECT_FALSE(failed.ok());
    EXPECT_EQ(failed.step(), 7);
    EXPECT_EQ(failed.manifest().step(), 7);
    EXPECT_EQ(failed.failure().step(), 7);
    EXPECT_EQ(failed.failure().code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
    EXPECT_EQ(failed.failure().message(), "host memory for the snapshot: the host cannot pin that much");
    EXPECT_EQ(rank.host_arena().figures().reserved, reserved);
    EXPECT_FALSE(IsDirectory(JoinPath(directory_, "7")));
    device.limit = int64_t{1} << 40;
    const v1::ShardWritten saved = Save(checkpointer, 8);
    EXPECT_TRUE(saved.ok());
    EXPECT_GT(saved.file().bytes(), 12 * rank.spec().parameters());
  });
}

}  // namespace
}  // namespace zerofleet::trainer
