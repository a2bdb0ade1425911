// The coordinator's metrics follow its state; see coordinator_metrics.h.
#include "services/metrics/coordinator_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "services/metrics/metrics_document.h"

namespace zerofleet::services {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(CoordinatorMetricsTest, FollowTheState) {
  prometheus::Registry registry;
  CoordinatorMetrics metrics(registry);
  coordinator::Fleet fleet;
  fleet.generation = 3;
  for (int i = 0; i < 2; ++i) fleet.members.push_back({});
  fleet.members[0].rank = 0;
  fleet.members[0].state = fleet.members[1].state = coordinator::MemberState::kTraining;
  fleet.members[1].rank = 1;
  fleet.members[0].last_heard = 9;
  fleet.members[1].last_heard = 7.5;
  fleet.counters.step_seconds = 9;
  fleet.counters.lost_step_seconds = 1;
  fleet.counters.recovery.load = 1.5;
  fleet.spares.push_back({});
  fleet.view = coordinator::View{1, coordinator::AxesOf(1, 2), {0, 0}, coordinator::PartitionMap({{"w", 0, 64}}, 2)};
  for (coordinator::Member& member : fleet.members) {
    member.pace.set_steps(32);
    member.pace.set_backward(member.rank == 1 ? 0.75 : 0.5);
  }
  fleet.saving.last_committed_step = 40;
  fleet.counters.stale_messages_rejected = 5;
  fleet.counters.rank_failures["session_ended"] = 1;
  fleet.counters.lost_steps = 7;
  fleet.counters.save_failures = 2;
  fleet.counters.rollbacks = 3;
  fleet.counters.spikes = 2;
  fleet.parameters.run = "tiny";
  fleet.parameters.config.set_steps(500);
  fleet.parameters.config.mutable_checkpoint()->set_dir("/data/run");
  fleet.phase = coordinator::Phase::kTraining;
  fleet.training.start_step = 40;
  fleet.training.last_step_event.set_step(47);
  metrics.Observe(fleet, 9);
  EXPECT_THAT(prometheus::TextSerializer().Serialize(registry.Collect()),
              Not(HasSubstr("zerofleet_coordinator_validation_loss ")));  // none yet
  fleet.phase = coordinator::Phase::kDone;
  fleet.training.last_evaluated_step = 47;
  fleet.training.last_evaluation.set_loss(2.5);
  v1::SetLoss& set = *fleet.training.last_evaluation.add_sets();
  set.set_name("wiki");
  set.set_loss(2.25);
  metrics.Observe(fleet, 10);
  metrics.Observe(fleet, 10);  // counters are set to a value, not raised by it
  metrics.SetLastCommit(1000);
  metrics.CountRefusal("role");
  std::string text = prometheus::TextSerializer().Serialize(registry.Collect());
  for (const char* line : {"zerofleet_coordinator_generation 3\n",
                           "zerofleet_coordinator_members{state=\"training\"} 2\n",
                           "zerofleet_coordinator_members{state=\"lost\"} 0\n",
                           "zerofleet_coordinator_heartbeat_age_seconds{rank=\"1\"} 2.5\n",
                           "zerofleet_coordinator_straggler_ratio{rank=\"0\"} 1\n",
                           "zerofleet_coordinator_straggler_ratio{rank=\"1\"} 1.5\n",
                           "zerofleet_coordinator_stale_messages_rejected_total 5\n",
                           "zerofleet_coordinator_rank_failures_total{cause=\"session_ended\"} 1\n",
                           "zerofleet_coordinator_refused_clients_total{cause=\"role\"} 1\n",
                           "zerofleet_coordinator_refused_clients_total{cause=\"token\"} 0\n",
                           "zerofleet_coordinator_refused_clients_total{cause=\"handshake\"} 0\n",
                           "zerofleet_coordinator_lost_steps_total 7\n",
                           "zerofleet_coordinator_save_failures_total 2\n",
                           "zerofleet_coordinator_rollbacks_total 3\n",
                           "zerofleet_coordinator_divergences_total{kind=\"spike\"} 2\n",
                           "zerofleet_coordinator_divergences_total{kind=\"not_finite\"} 0\n",
                           "zerofleet_coordinator_recovery_duration_seconds{phase=\"detect\"} 0\n",
                           "zerofleet_coordinator_recovery_duration_seconds{phase=\"load\"} 1.5\n",
                           "zerofleet_coordinator_members{state=\"spare\"} 1\n",
                           "zerofleet_coordinator_rank_failures_total{cause=\"heartbeat_timeout\"} 0\n",
                           "zerofleet_coordinator_checkpoint_last_committed_step 40\n",
                           "zerofleet_coordinator_checkpoint_last_commit_timestamp_seconds 1000\n",
                           "zerofleet_coordinator_phase{phase=\"training\"} 0\n",
                           "zerofleet_coordinator_phase{phase=\"done\"} 1\n",
                           "zerofleet_coordinator_phase{phase=\"failed\"} 0\n",
                           "zerofleet_coordinator_step 47\n",
                           "zerofleet_coordinator_target_steps 500\n",
                           "zerofleet_coordinator_validation_loss 2.5\n",
                           "zerofleet_coordinator_validation_loss{set=\"wiki\"} 2.25\n",
                           "zerofleet_coordinator_run_info{checkpoint_dir=\"/data/run\",run=\"tiny\"} 1\n",
                           "zerofleet_coordinator_seconds_total 10\n",
                           "zerofleet_coordinator_step_seconds_total 9\n",
                           "zerofleet_coordinator_lost_step_seconds_total 1\n",
                           "zerofleet_coordinator_steps_that_differ_total 0\n",
                           "zerofleet_coordinator_goodput_ratio 0.8\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(UndocumentedLabelValues(text), testing::IsEmpty());
}

// A rank that a smaller view no longer has would otherwise be the slowest one forever.
TEST(CoordinatorMetricsTest, RanksThatAreGoneHaveNoSeries) {
  prometheus::Registry registry;
  CoordinatorMetrics metrics(registry);
  coordinator::Fleet fleet;
  fleet.view = coordinator::View{1, coordinator::AxesOf(1, 2), {0, 0}, coordinator::PartitionMap({{"w", 0, 64}}, 2)};
  for (int rank = 0; rank < 2; ++rank) {
    coordinator::Member member;
    member.rank = rank;
    member.state = coordinator::MemberState::kTraining;
    member.pace.set_steps(32);
    member.pace.set_backward(rank == 1 ? 0.75 : 0.5);
    fleet.members.push_back(member);
  }
  const auto text = [&] {
    metrics.Observe(fleet, 10);
    return prometheus::TextSerializer().Serialize(registry.Collect());
  };
  EXPECT_THAT(text(),
              AllOf(HasSubstr("heartbeat_age_seconds{rank=\"1\"}"), HasSubstr("straggler_ratio{rank=\"1\"} 1.5")));
  fleet.members.EraseIf([](const coordinator::Member& member) { return member.rank == 1; });
  EXPECT_THAT(text(), AllOf(HasSubstr("heartbeat_age_seconds{rank=\"0\"}"), Not(HasSubstr("rank=\"1\""))));
  fleet.members.push_back(fleet.members[0]);
  fleet.members[1].rank = 1;
  EXPECT_THAT(text(), HasSubstr("heartbeat_age_seconds{rank=\"1\"}"));
}

// In a large fleet the members are examined once a second, and once more at the end.
TEST(CoordinatorMetricsTest, OfALargeFleetAreCheap) {
  prometheus::Registry registry;
  CoordinatorMetrics metrics(registry);
  coordinator::Fleet fleet;
  for (int rank = 0; rank < 100; ++rank) {
    fleet.members.push_back({});
    fleet.members[rank].rank = rank;
  }
  const auto text = [&](double now) {
    metrics.Observe(fleet, now);
    return prometheus::TextSerializer().Serialize(registry.Collect());
  };
  EXPECT_THAT(text(10), HasSubstr("heartbeat_age_seconds{rank=\"99\"} 10\n"));
  EXPECT_THAT(text(10.5), HasSubstr("heartbeat_age_seconds{rank=\"99\"} 10\n"));
  EXPECT_THAT(text(11), HasSubstr("heartbeat_age_seconds{rank=\"99\"} 11\n"));
  fleet.phase = coordinator::Phase::kDone;
  EXPECT_THAT(text(11.5), HasSubstr("heartbeat_age_seconds{rank=\"99\"} 11.5\n"));
}

}  // namespace
}  // namespace zerofleet::services
