// Collectives between real processes (collective_rank): over UCX with all of its transports, over UCX with TCP alone,
// and through each other's memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace zerofleet::collective {
namespace {

// A rank's process, with a pipe to its stdin and one from its stdout.
class RankProcess {
 public:
  // `transport` is UCX_TLS's value, or shared_memory.
  RankProcess(int size, int rank, const std::string& generation, const std::string& scenario,
              const std::string& transport, const std::vector<std::string>& teams = {}) {
    int in[2], out[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    const bool shares_memory = transport == "shared_memory";
    std::vector<std::string> arguments = {ZEROFLEET_COLLECTIVE_RANK, absl::StrCat(size), absl::StrCat(rank), generation,
                                          absl::StrCat(shares_memory ? "shared_memory:" : "", scenario)};
    arguments.insert(arguments.end(), teams.begin(), teams.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    setenv("UCX_TLS", shares_memory ? "all" : transport.c_str(), 1);
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    unsetenv("UCX_TLS");
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = fdopen(out[0], "r");
  }
  ~RankProcess() {
    if (pid_ > 0) Kill();
    close(to_);
    fclose(from_);
  }
  RankProcess(const RankProcess&) = delete;

  std::string ReadLine() {
    char* line = nullptr;
    size_t capacity = 0;
    const ssize_t length = getline(&line, &capacity, from_);
    std::string result(line, length > 0 ? length : 0);
    free(line);
    return result;
  }
  void Write(const std::string& text) {
    EXPECT_EQ(write(to_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  void Kill() {
    kill(pid_, SIGKILL);
    Wait();
  }
  // The exit code, or minus the signal that ended it.
  int Wait() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  int to_ = -1;
  FILE* from_ = nullptr;
};

using Ranks = std::vector<std::unique_ptr<RankProcess>>;

// The last rank runs `last`, the others `scenario`. `teams`: collective_rank's last arguments.
Ranks Start(int size, const std::string& scenario, const std::string& last, const std::string& tls,
            const std::vector<std::string>& teams = {}) {
  Ranks ranks;
  for (int rank = 0; rank < size; rank++) {
    ranks.push_back(std::make_unique<RankProcess>(size, rank, "7", rank == size - 1 ? last : scenario, tls, teams));
  }
  std::string addresses;
  for (auto& rank : ranks) addresses += rank->ReadLine();
  for (auto& rank : ranks) rank->Write(addresses);
  return ranks;
}

class ProcessTest : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(ProcessTest, SumsAreRightAndRanksLeaveInAnyOrder) {
  const auto [size, tls] = GetParam();
  for (int round = 0; round < 3; round++) {
    Ranks ranks = Start(size, "sums", "sums", tls);
    for (auto& rank : ranks) EXPECT_EQ(rank->Wait(), 0);
  }
}

// Two teams of two, each declared to be on a node of its own. Results have the bits of the in-process backend, and the
// closed form's bytes leave a node: 4*S*(T-1)/T for a reduction of S elements, and its half of the bf16 result for a
// gather.
TEST(ProcessTeamsTest, SumsInTwoLevelsAreRightAndCounted) {
  for (const std::string tls : {"all", "tcp"}) {
    Ranks ranks = Start(4, "counts", "counts", tls, {"2", "0,0,1,1"});
    for (auto& rank : ranks) EXPECT_EQ(rank->ReadLine(), "joined\n");
    int64_t from_first_node[3] = {0, 0, 0};  // after each operation
    for (int64_t& so_far : from_first_node) {
      for (size_t rank = 0; rank < ranks.size(); rank++) {
        int64_t sent = 0, to_other_nodes = 0;
        ASSERT_EQ(sscanf(ranks[rank]->ReadLine().c_str(), "%ld %ld", &sent, &to_other_nodes), 2);
        EXPECT_LT(to_other_nodes, sent);
        if (rank < 2) so_far += to_other_nodes;
      }
      for (auto& rank : ranks) rank->Write("\n");
    }
    const int64_t shard = 750'001;  // a quarter of 3,000,001 elements; the last one is shorter
    EXPECT_EQ(from_first_node[1] - from_first_node[0], 4 * (2 * shard - 3)) << tls;
    EXPECT_EQ(from_first_node[2] - from_first_node[1], 2 * 2 * shard) << tls;
    for (auto& rank : ranks) EXPECT_EQ(rank->Wait(), 0) << tls;
  }
}

// A peer that dies before its first operation.
TEST_P(ProcessTest, RanksThatWaitForADeadOneStayAliveUntilTold) {
  const auto [size, tls] = GetParam();
  Ranks ranks = Start(size, "streams", "hangs", tls);
  for (auto& rank : ranks) EXPECT_EQ(rank->ReadLine(), "joined\n");
  ranks.back()->Kill();
  ranks.pop_back();
  for (auto& rank : ranks) rank->Write("abort\n");
  for (auto& rank : ranks) EXPECT_EQ(rank->Wait(), 0);
}

// A peer that dies before, while or after the ranks connect.
TEST_P(ProcessTest, SurvivorsOfARankThatDiesEarlyStayAliveUntilTold) {
  const auto [size, tls] = GetParam();
  for (int round = 0; round < 5; round++) {
    Ranks ranks = Start(size, "streams", "streams", tls);
    for (auto& rank : ranks) EXPECT_EQ(rank->ReadLine(), "joined\n");
    absl::SleepFor(round * absl::Microseconds(600));
    ranks.back()->Kill();
    ranks.pop_back();
    for (auto& rank : ranks) rank->Write("abort\n");
    for (auto& rank : ranks) EXPECT_EQ(rank->Wait(), 0) << round;
  }
}

// A peer that dies in the middle of an operation, large or small.
TEST_P(ProcessTest, SurvivorsOfAKilledRankStayAliveUntilTold) {
  const auto [size, tls] = GetParam();
  for (const std::string scenario : {"streams", "trickles"}) {
    Ranks ranks = Start(size, scenario, scenario, tls);
    for (auto& rank : ranks) EXPECT_EQ(rank->ReadLine(), "joined\n");
    for (auto& rank : ranks) EXPECT_EQ(rank->ReadLine(), "running\n");
    ranks.back()->Kill();
    ranks.pop_back();
    for (auto& rank : ranks) rank->Write("abort\n");
    for (auto& rank : ranks) EXPECT_EQ(rank->Wait(), 0) << scenario;
  }
}

// Without an abort: a rank that reads its peers' memory notices by itself that one has ended.
TEST(ProcessEndTest, RanksThatShareMemoryNoticeTheEndOfOne) {
  for (const std::string scenario : {"streams", "trickles"}) {
    Ranks ranks = Start(3, scenario, scenario, "shared_memory");
    for (auto& rank : ranks) EXPECT_EQ(rank->ReadLine(), "joined\n");
    for (auto& rank : ranks) EXPECT_EQ(rank->ReadLine(), "running\n");
    ranks.back()->Kill();
    ranks.pop_back();
    const absl::Time killed = absl::Now();
    for (auto& rank : ranks) EXPECT_EQ(rank->ReadLine(), "failed\n");
    EXPECT_LT(absl::Now() - killed, absl::Seconds(5)) << "on a busy machine, too";
    for (auto& rank : ranks) rank->Write("abort\n");
    for (auto& rank : ranks) EXPECT_EQ(rank->Wait(), 0) << scenario;
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ProcessTest,
                         testing::Combine(testing::Values(2, 3), testing::Values("all", "tcp", "shared_memory")),
                         [](const auto& test) {
                           return absl::StrCat(std::get<1>(test.param), std::get<0>(test.param));
                         });

}  // namespace
}  // namespace zerofleet::collective
