// Signals passed on to a child, and how it ended.
#include "cli/launcher/await_child.h"

#include <signal.h>

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

std::unique_ptr<ChildProcess> StartShell(const std::string& script) {
  return ChildProcess::Start("child", {script}, "", nullptr, {.program = "/bin/sh", .words = {"-c"}}).value();
}

class AwaitChildTest : public testing::Test {
 protected:
  AwaitChildTest() {
    pthread_sigmask(SIG_BLOCK, nullptr, &before_);
    signals_ = std::make_unique<StopSignals>();
  }
  // The end of a child is also a signal, which later tests must not find pending.
  ~AwaitChildTest() override {
    while (signals_->Wait(0) != 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  sigset_t before_ = {};
  std::unique_ptr<StopSignals> signals_;
};

TEST_F(AwaitChildTest, ASignalIsPassedOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    // The child ends by itself with exit code 9 if no signal comes.
    const auto child = StartShell(
        "trap 'exit 7' INT TERM; echo ready; i=0; while [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done; exit 9");
    ASSERT_EQ(child->ReadLine(/*timeout_seconds=*/60).value(), "ready");
    raise(signal);
    const ChildEnd end = AwaitChild(*child, *signals_);
    EXPECT_EQ(end.exit_code, 7);
    EXPECT_EQ(end.stop_signal, signal);
  }
}

TEST_F(AwaitChildTest, AnEndWithoutASignal) {
  const auto ended = StartShell("exit 3");
  EXPECT_EQ(AwaitChild(*ended, *signals_).exit_code, 3);
  const auto killed = StartShell("kill -KILL $$");
  const ChildEnd end = AwaitChild(*killed, *signals_);
  EXPECT_EQ(end.exit_code, 128 + SIGKILL);
  EXPECT_EQ(end.stop_signal, 0);
}

}  // namespace
}  // namespace zerofleet::cli
