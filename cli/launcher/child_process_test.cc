// Children are this test's own executable: one that lists its tests, one that waits to be killed.
#include "cli/launcher/child_process.h"

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

std::string LogPath() { return testing::TempDir() + "/child_process_test_" + std::to_string(getpid()) + ".log"; }

void AwaitEnd(ChildProcess& child) {
  while (!child.HasEnded()) std::this_thread::yield();
}

// What the killed child runs: never as a test of its own.
TEST(ChildProcessBody, DISABLED_Waits) {
  write(STDOUT_FILENO, "\nready\n", 7);
  pause();
}

TEST(ChildProcess, TellsItsFirstLineAndExitCode) {
  auto child = ChildProcess::Start("lister", {"--gtest_list_tests"}, LogPath());
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_FALSE((*child)->ReadLine(20).value().empty());
  AwaitEnd(**child);
  EXPECT_EQ((*child)->exit_code(), 0);
  EXPECT_EQ((*child)->signal(), 0);
  EXPECT_EQ((*child)->ErrorLine(), "");
}

TEST(ChildProcess, TellsTheSignalThatKilledItAndWho) {
  for (const bool ours : {true, false}) {
    auto child = ChildProcess::Start(
        "waiter", {"--gtest_filter=ChildProcessBody.DISABLED_Waits", "--gtest_also_run_disabled_tests"}, LogPath());
    ASSERT_TRUE(child.ok()) << child.status();
    while ((*child)->ReadLine(20).value() != "ready") {
    }
    EXPECT_FALSE((*child)->HasEnded());
    ours ? (*child)->Kill() : static_cast<void>(kill((*child)->pid(), SIGTERM));
    AwaitEnd(**child);
    EXPECT_EQ((*child)->signal(), ours ? SIGKILL : SIGTERM);
    EXPECT_EQ((*child)->killed_by_us(), ours);
  }
}

TEST(ChildProcess, FindsTheErrorLineOfItsOwnPartOfTheLog) {
  const std::string path = LogPath();
  std::ofstream(path, std::ios::app) << "zerofleet: an older run's error\n";
  auto child = ChildProcess::Start("lister", {"--gtest_list_tests"}, path);
  ASSERT_TRUE(child.ok());
  AwaitEnd(**child);
  EXPECT_EQ((*child)->ErrorLine(), "");
  std::ofstream(path, std::ios::app) << "{}\nzerofleet: first\nzerofleet: last\n{}\n";
  EXPECT_EQ((*child)->ErrorLine(), "last");
  unlink(path.c_str());
}

TEST(ChildProcess, SaysWhyALogCannotBeWritten) {
  EXPECT_EQ(ChildProcess::Start("x", {}, "/no/such/x.log").status().message(),
            "log /no/such/x.log: No such file or directory");
}

}  // namespace
}  // namespace zerofleet::cli
