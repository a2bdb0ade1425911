// Status reaches readers, and an abort reaches the communicator at any time.
#include "worker/trainer/worker_status.h"

#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "worker/collective/in_process.h"

namespace zerofleet::trainer {
namespace {

TEST(WorkerStatus, SaysWhatItWasTold) {
  WorkerStatus status;
  EXPECT_EQ(status.phase(), "joining");
  status.SetPhase("training");
  status.SetStep(11);
  EXPECT_EQ(status.phase(), "training");
  EXPECT_EQ(status.Heartbeat().step(), 11);
  EXPECT_EQ(status.Heartbeat().progress_size(), 0);
}

TEST(WorkerStatus, TellsHowFarASaveIs) {
  WorkerStatus status;
  const auto meter = std::make_shared<SaveMeter>();
  status.SetSaves(meter);
  EXPECT_FALSE(status.Heartbeat().has_save());
  meter->Begin(40);
  meter->Add(3);
  meter->Add(4);
  EXPECT_EQ(status.Heartbeat().save().step(), 40);
  EXPECT_EQ(status.Heartbeat().save().bytes(), 7);
  meter->End();
  meter->Add(5);  // no save is in progress
  EXPECT_FALSE(status.Heartbeat().has_save());
}

parallel::GroupCommunicators Only(std::unique_ptr<collective::Communicator> data) {
  std::vector<std::unique_ptr<collective::Communicator>> communicators;
  communicators.push_back(std::move(data));
  return parallel::GroupCommunicators(std::move(communicators));
}

TEST(WorkerStatus, AbortsTheCommunicatorsNowOrLater) {
  std::vector<std::unique_ptr<collective::Communicator>> group =
      collective::CreateInProcessGroup(parallel::kDataGroup, 2);
  const parallel::GroupCommunicators first = Only(std::move(group[0])), second = Only(std::move(group[1]));
  WorkerStatus now, later;
  now.SetGroups(&first);
  float value = 1;
  collective::Communicator::Pending waiting = first.data().AllReduce({&value, device::DType::kF32}, 1, "head");
  while (first.data().progress().sequence == 0) std::this_thread::yield();
  now.Abort(absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(waiting.Wait().message(), "rank 1 is gone");
  EXPECT_EQ(now.Heartbeat().progress(0).unit(), "head");
  later.Abort(absl::UnavailableError("too late"));
  later.SetGroups(&second);
  EXPECT_FALSE(second.data().AllReduce({&value, device::DType::kF32}, 1, "head").Wait().ok());
  now.SetGroups(nullptr);
  later.SetGroups(nullptr);
}

}  // namespace
}  // namespace zerofleet::trainer
