// The text of a fleet's status.
#include "cli/report/status_text.h"

#include "absl/strings/str_split.h"
#include "coordinator/ownership.h"
#include "gtest/gtest.h"

namespace zerofleet::cli {
namespace {

v1::GetStatusResponse Training() {
  v1::GetStatusResponse status;
  status.set_phase("training");
  status.set_generation(3);
  status.set_world_size(2);
  status.set_step(12);
  status.set_steps(100);
  status.set_loss(2.5);
  status.set_tokens_per_second(8192);
  status.set_mfu(0.25);
  status.set_last_checkpoint_step(10);
  v1::MemberStatus& member = *status.add_members();
  member.set_host("box");
  member.set_pid(77);
  member.set_state("training");
  member.set_step(12);
  member.set_heartbeat_age_seconds(0.3);
  member.set_device("cpu");
  v1::GroupProgress& progress = *member.add_progress();
  progress.set_group("data");
  progress.set_sequence(9);
  progress.set_completed(8);
  progress.set_operation("all_gather");
  progress.set_unit("block.1");
  return status;
}

TEST(StatusText, ShowsTheRunAndItsMembers) {
  EXPECT_EQ(StatusText(Training()),
            "training, generation 3, step 12/100, loss 2.5000, 8.2K tok/s, MFU 25.0%, checkpoint at step 10\n"
            "\n"
            "rank  host  pid     state  step  heartbeat  device                  collective\n"
            "0      box   77  training    12       0.3s     cpu  data #9 all_gather block.1\n"
            "waiting for 1 more\n");
}

TEST(StatusText, ShowsASaveThatFailed) {
  v1::GetStatusResponse status = Training();
  EXPECT_EQ(StatusText(status).find("last save"), std::string::npos);
  status.set_save_failure("rank 0 could not write its shard of step 12: disk full");
  EXPECT_NE(StatusText(status).find("\nlast save failed: rank 0 could not write its shard of step 12: disk full\n"),
            std::string::npos);
}

TEST(StatusText, ShowsTheLastRollback) {
  v1::GetStatusResponse status = Training();
  status.set_rollback("training has diverged at step 9: loss nan");
  EXPECT_NE(StatusText(status).find("\ntraining has diverged at step 9: loss nan\n"), std::string::npos);
}

TEST(StatusText, FitsTheTerminal) {
  v1::GetStatusResponse status = Training();
  status.set_message(
      "rank 1 was lost at step 11: nothing heard for 2.0 s; its collective was data #9 all_gather block.1");
  for (const int columns : {60, 80, 200}) {
    const std::string text = StatusText(status, Terminal::OfSize(columns, 24, /*live=*/true, /*color=*/false));
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n')))
      EXPECT_LE(DisplayWidth(line), columns) << line;
    for (const char* word : {"generation 3", "checkpoint", "box", "0.3s", "block.1", "waiting for 1 more"}) {
      EXPECT_NE(text.find(word), std::string::npos) << word << " at " << columns;
    }
  }
}

// Two ranks of two units; `extra` more ranks that own nothing.
v1::GetStatusResponse WithPartition(int extra = 0) {
  v1::GetStatusResponse status = Training();
  status.set_world_size(1);
  const coordinator::PartitionMap partition({{"embedding", 0, 100}, {"head", 100, 107}}, 2 + extra);
  *status.mutable_partition() =
      coordinator::PartitionStatusOf(partition, {{"parameters", 2, false}, {"exp_avg", 4, true}});
  return status;
}

TEST(StatusText, ShowsWhoOwnsWhat) {
  const std::string text = StatusText(WithPartition());
  EXPECT_EQ(text.substr(text.find("\nbytes of")),
            "\nbytes of each state, padding included\n"
            "rank  parameters  exp_avg\n"
            "0          384 B    384 B\n"
            "1          384 B    384 B\n"
            "\nwho owns which elements: from the first to before the last\n"
            "unit       elements   rank 0  rank 1\n"
            "embedding       100     0-64  64-100\n"
            "head              7  100-107       -\n");
}

TEST(StatusText, PartitionsOfManyRanksFitTheTerminal) {
  for (const int columns : {60, 80}) {
    const std::string text =
        StatusText(WithPartition(62), Terminal::OfSize(columns, 24, /*live=*/true, /*color=*/false));
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n')))
      EXPECT_LE(DisplayWidth(line), columns) << line;
    EXPECT_NE(text.find("rank 63"), std::string::npos);
  }
}

TEST(StatusText, SeveralTeamsHaveAColumn) {
  v1::GetStatusResponse status = Training();
  *status.add_members() = status.members(0);
  status.mutable_members(1)->set_rank(1);
  EXPECT_EQ(StatusText(status).find("team"), std::string::npos);
  status.mutable_members(1)->set_team(1);
  EXPECT_NE(StatusText(status).find("rank  team  host"), std::string::npos);
}

// Containers of one image may have the same host name; the addresses of their sessions distinguish them.
TEST(StatusText, HostsOfOneNameShowTheirAddresses) {
  const auto text_of = [](const v1::GetStatusResponse& status) {
    return StatusText(status, Terminal::OfSize(200, 24, /*live=*/true, /*color=*/false));
  };
  v1::GetStatusResponse status;
  for (const char* address : {"10.0.0.3", "10.0.0.4"}) {
    v1::MemberStatus& member = *status.add_members();
    member.set_host("trainer");
    member.set_address(address);
  }
  EXPECT_NE(text_of(status).find("trainer (10.0.0.3)"), std::string::npos) << text_of(status);
  EXPECT_NE(text_of(status).find("trainer (10.0.0.4)"), std::string::npos);
  status.mutable_members(1)->set_address("10.0.0.3");
  EXPECT_EQ(text_of(status).find('('), std::string::npos) << text_of(status);
}

}  // namespace
}  // namespace zerofleet::cli
