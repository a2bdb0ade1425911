// Status reaches readers, and an abort reaches the communicator at any time.
#include "worker/trainer/worker_status.h"

#include <thread>

#include "gtest/gtest.h"
#include "worker/collective/in_process.h"

namespace zerofleet {
namespace {

TEST(WorkerStatus, SaysWhatItWasTold) {
  WorkerStatus status;
  EXPECT_EQ(status.Snapshot().rank(), -1);
  EXPECT_EQ(status.Snapshot().phase(), "joining");
  status.SetAssignment(2, 4, 7);
  status.SetPhase("training");
  status.SetStep(11);
  EXPECT_EQ(status.Snapshot().generation(), 7u);
  EXPECT_EQ(status.Heartbeat().step(), 11);
  EXPECT_EQ(status.Heartbeat().progress_size(), 0);
}

TEST(WorkerStatus, AbortsTheCommunicatorNowOrLater) {
  std::vector<std::unique_ptr<Communicator>> group = CreateInProcessGroup("data", 2);
  WorkerStatus now, later;
  now.SetCommunicator(group[0].get());
  float value = 1;
  Communicator::Pending waiting = group[0]->AllReduce(&value, 1, DType::kF32, "head");
  while (group[0]->progress().sequence == 0) std::this_thread::yield();
  now.Abort(absl::UnavailableError("rank 1 is gone"));
  EXPECT_EQ(waiting.Wait().message(), "rank 1 is gone");
  EXPECT_EQ(now.Heartbeat().progress(0).unit(), "head");
  later.Abort(absl::UnavailableError("too late"));
  later.SetCommunicator(group[1].get());
  EXPECT_FALSE(group[1]->AllReduce(&value, 1, DType::kF32, "head").Wait().ok());
  now.SetCommunicator(nullptr);
  later.SetCommunicator(nullptr);
}

}  // namespace
}  // namespace zerofleet
