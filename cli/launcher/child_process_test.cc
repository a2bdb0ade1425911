// Children are this test's own executable: one that lists its tests, one that waits to be killed.
#include "cli/launcher/child_process.h"

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "base/file.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

std::string LogPath() { return testing::TempDir() + "/child_process_test_" + std::to_string(getpid()) + ".log"; }

void AwaitEnd(ChildProcess& child) {
  while (!child.HasEnded()) std::this_thread::yield();
}

// The body of the child that is killed; never a test of its own.
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

// The body of a child that ends with an error message.
TEST(ChildProcessBody, DISABLED_Complains) {
  const std::string line = "zerofleet: there is no such thing\n";
  EXPECT_EQ(write(STDERR_FILENO, line.data(), line.size()), static_cast<ssize_t>(line.size()));
}

absl::StatusOr<std::unique_ptr<ChildProcess>> StartComplaining(const std::string& log_path) {
  return ChildProcess::Start("complainer",
                             {"--gtest_filter=ChildProcessBody.DISABLED_Complains", "--gtest_also_run_disabled_tests"},
                             log_path);
}

TEST(ChildProcess, MakesTheDirectoryOfItsLogAnew) {
  const std::string directory = LogPath() + ".gone";
  ASSERT_TRUE(RemoveTree(directory).ok());
  auto child = StartComplaining(directory + "/logs/worker-0.log");
  ASSERT_TRUE(child.ok()) << child.status();
  AwaitEnd(**child);
  EXPECT_EQ((*child)->log_note(), "");
  EXPECT_EQ((*child)->LogText(), "; its log is " + directory + "/logs/worker-0.log");
  EXPECT_EQ((*child)->ErrorLine(), "there is no such thing");
  ASSERT_TRUE(RemoveTree(directory).ok());
}

TEST(ChildProcess, WithNoPlaceForItsLogKeepsItInMemory) {
  const std::string file = LogPath() + ".file";
  std::ofstream(file) << "in the way";
  auto child = StartComplaining(file + "/worker-0.log");
  ASSERT_TRUE(child.ok()) << child.status();
  AwaitEnd(**child);
  EXPECT_EQ((*child)->log_note(), "complainer has no log but in memory: " + file + "/worker-0.log: Not a directory");
  EXPECT_EQ((*child)->LogText(), "");
  EXPECT_EQ((*child)->ErrorLine(), "there is no such thing");
  (*child)->BoundLog(1);  // empties the log as if it were a file
  EXPECT_EQ((*child)->ErrorLine(), "");
  unlink(file.c_str());
}

}  // namespace
}  // namespace zerofleet::cli
