// Workers of a node that end in every way; children are this test's own executable.
#include "cli/launcher/local_workers.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

using ::testing::HasSubstr;

// Bodies of the children; never tests of their own.
TEST(LocalWorkersBody, DISABLED_EndsWith0) { _exit(0); }
TEST(LocalWorkersBody, DISABLED_EndsWith3) { _exit(3); }
TEST(LocalWorkersBody, DISABLED_EndsWith4) { _exit(4); }
TEST(LocalWorkersBody, DISABLED_IsKilled) { kill(getpid(), SIGKILL); }
TEST(LocalWorkersBody, DISABLED_WaitsForSigterm) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  write(STDERR_FILENO, "", 0);
  int signal = 0;
  sigwait(&set, &signal);
  _exit(143);
}

std::vector<std::string> Body(const std::string& name) {
  return {"--gtest_filter=LocalWorkersBody.DISABLED_" + name, "--gtest_also_run_disabled_tests"};
}

class LocalWorkersTest : public testing::Test {
 protected:
  LocalWorkersTest() {
    options_.workers = 2;
    options_.max_restarts = 2;
    options_.run_goes_on = [this] { return goes_on_.load(); };
    options_.note = [this](const std::string& line) { notes_.push_back(line); };
  }
  // Restores the signals for the next test: none is pending, none is blocked.
  ~LocalWorkersTest() override {
    while (signals_.Wait(0) != 0) {
    }
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  // Runs two workers. Worker 0 ends as `ends` says, one entry per start and the last one repeated; worker 1 ends with
  // 0.
  absl::StatusOr<int> Run(std::vector<std::string> ends) {
    size_t started = 0;
    options_.arguments = [&](int number) {
      if (number == 1) return Body("EndsWith0");
      const size_t at = std::min(started++, ends.size() - 1);
      return Body(ends[at]);
    };
    const absl::StatusOr<int> code = RunLocalWorkers(options_, signals_);
    starts_ = static_cast<int>(started);
    return code;
  }

  static sigset_t Mask() {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return mask;
  }

  const sigset_t mask_ = Mask();
  StopSignals signals_;
  LocalWorkersOptions options_;
  std::atomic<bool> goes_on_ = true;
  std::vector<std::string> notes_;
  int starts_ = 0;
};

TEST(LocalWorkers, WhatEndedAWorkerDecides) {
  EXPECT_EQ(JudgeWorkerEnd(0, 0, false), WorkerEnd::kDone);
  EXPECT_EQ(JudgeWorkerEnd(SIGKILL, 0, false), WorkerEnd::kStartAgain);
  EXPECT_EQ(JudgeWorkerEnd(SIGSEGV, 0, false), WorkerEnd::kStartAgain);
  for (const int code : {1, 4}) EXPECT_EQ(JudgeWorkerEnd(0, code, false), WorkerEnd::kAsk);
  for (const int code : {2, 3}) EXPECT_EQ(JudgeWorkerEnd(0, code, false), WorkerEnd::kFailed);
  for (const int code : {0, 3, 4, 143}) EXPECT_EQ(JudgeWorkerEnd(0, code, true), WorkerEnd::kDone);
  EXPECT_EQ(JudgeWorkerEnd(SIGKILL, 0, true), WorkerEnd::kDone);
}

TEST_F(LocalWorkersTest, AWorkerThatWasKilledOrLostIsStartedAgain) {
  EXPECT_EQ(Run({"IsKilled", "EndsWith4", "EndsWith0"}).value(), 0);
  EXPECT_EQ(starts_, 3);
  ASSERT_EQ(notes_.size(), 2u);
  EXPECT_THAT(notes_[0], HasSubstr("was killed by SIGKILL; started again as pid "));
  EXPECT_THAT(notes_[1], HasSubstr("ended with exit code 4; started again as pid "));
}

TEST_F(LocalWorkersTest, NotForEver) {
  const absl::Status status = Run({"IsKilled"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("was killed by SIGKILL, after it had been started again 2 times"));
  EXPECT_EQ(starts_, 3);
}

TEST_F(LocalWorkersTest, NotWhereAnotherWouldFindTheSame) {
  EXPECT_EQ(Run({"EndsWith3"}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(starts_, 1);
}

// A clock that has passed any limit when it is read for the second time.
class LeapingClock : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  double MonotonicSeconds() const override { return now_ += 100; }

 private:
  mutable std::atomic<double> now_ = 0;
};

TEST_F(LocalWorkersTest, NotOnceTheRunIsOver) {
  goes_on_ = false;
  const LeapingClock clock;
  options_.clock = &clock;
  EXPECT_EQ(Run({"EndsWith4"}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(starts_, 1);
}

TEST_F(LocalWorkersTest, ASignalIsPassedOnAndNobodyIsStartedAgain) {
  kill(getpid(), SIGTERM);  // blocked, so it stays pending until the children have been started and the loop runs
  EXPECT_EQ(Run({"WaitsForSigterm"}).value(), 143);
  EXPECT_EQ(starts_, 1);
}

}  // namespace
}  // namespace zerofleet::cli
