// The text of a fleet's status.
#include "cli/status_text.h"

#include "gtest/gtest.h"

namespace zerofleet {
namespace {

TEST(StatusText, ShowsTheRunAndItsMembers) {
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
  EXPECT_EQ(StatusText(status),
            "training, generation 3, step 12/100, loss 2.5000, 8.2K tok/s, MFU 25.0%, checkpoint at step 10\n"
            "\n"
            "rank  host  pid     state  step  heartbeat  device                  collective\n"
            "0      box   77  training    12       0.3s     cpu  data #9 all_gather block.1\n"
            "waiting for 1 more\n");
}

}  // namespace
}  // namespace zerofleet
