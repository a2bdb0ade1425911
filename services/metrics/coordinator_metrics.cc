// The table of metrics and its labelled families; see coordinator_metrics.h.
#include "services/metrics/coordinator_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/status_view.h"
#include "coordinator/straggler.h"
#include "services/common/refusals.h"

namespace zerofleet::services {
namespace {

struct GaugeRow {
  const char* name;
  const char* help;
  double (*value)(const coordinator::Fleet&, double now);
};
constexpr GaugeRow kGauges[] = {
    {"zerofleet_coordinator_generation", "Generation of the fleet's view; 0 before it has formed.",
     [](const coordinator::Fleet& fleet, double) { return static_cast<double>(fleet.generation); }},
    {"zerofleet_coordinator_rendezvous_duration_seconds", "Time the last formation of the fleet took.",
     [](const coordinator::Fleet& fleet, double) { return fleet.counters.rendezvous_seconds; }},
    {"zerofleet_coordinator_checkpoint_last_committed_step", "Step of the newest committed checkpoint; -1 if none.",
     [](const coordinator::Fleet& fleet, double) { return static_cast<double>(fleet.saving.last_committed_step); }},
    {"zerofleet_coordinator_step", "Optimizer steps completed, resumed ones included.",
     [](const coordinator::Fleet& fleet, double) {
       return static_cast<double>(std::max(fleet.training.last_step_event.step(), fleet.training.start_step));
     }},
    {"zerofleet_coordinator_target_steps", "Steps at which the run ends, as configured.",
     [](const coordinator::Fleet& fleet, double) { return static_cast<double>(fleet.parameters.config.steps()); }},
    {"zerofleet_coordinator_goodput_ratio", "Share of the coordinator's life that went into training steps.",
     [](const coordinator::Fleet& fleet, double now) { return coordinator::GoodputRatio(fleet, now); }},
};

struct CounterRow {
  const char* name;
  const char* help;
  double (*value)(const coordinator::Fleet&, double now);
};
constexpr CounterRow kCounters[] = {
    {"zerofleet_coordinator_stale_messages_rejected_total", "Messages refused because their generation had passed.",
     [](const coordinator::Fleet& fleet, double) {
       return static_cast<double>(fleet.counters.stale_messages_rejected);
     }},
    {"zerofleet_coordinator_checkpoint_bytes_total", "Bytes of all shards committed.",
     [](const coordinator::Fleet& fleet, double) { return static_cast<double>(fleet.counters.checkpoint_bytes); }},
    {"zerofleet_coordinator_checkpoint_verify_failures_total", "Checkpoints found damaged when a rank loaded them.",
     [](const coordinator::Fleet& fleet, double) {
       return static_cast<double>(fleet.counters.checkpoint_verify_failures);
     }},
    {"zerofleet_coordinator_save_failures_total", "Checkpoints that could not be stored.",
     [](const coordinator::Fleet& fleet, double) { return static_cast<double>(fleet.counters.save_failures); }},
    {"zerofleet_coordinator_recoveries_total", "Times the fleet went on after a loss.",
     [](const coordinator::Fleet& fleet, double) { return static_cast<double>(fleet.counters.recoveries); }},
    {"zerofleet_coordinator_rollbacks_total", "Times the fleet went back from a step that diverged.",
     [](const coordinator::Fleet& fleet, double) { return static_cast<double>(fleet.counters.rollbacks); }},
    {"zerofleet_coordinator_lost_steps_total", "Steps done after the last commit when a rank was lost.",
     [](const coordinator::Fleet& fleet, double) { return static_cast<double>(fleet.counters.lost_steps); }},
    {"zerofleet_coordinator_seconds_total", "Time since the coordinator began.",
     [](const coordinator::Fleet& fleet, double now) { return now - fleet.began; }},
    {"zerofleet_coordinator_step_seconds_total", "Time that training steps took, those included that were lost again.",
     [](const coordinator::Fleet& fleet, double) { return fleet.counters.step_seconds; }},
    {"zerofleet_coordinator_lost_step_seconds_total", "Time that steps took which were lost again.",
     [](const coordinator::Fleet& fleet, double) { return fleet.counters.lost_step_seconds; }},
    {"zerofleet_coordinator_steps_that_differ_total",
     "Steps that a recovery did again, with other numbers than before.",
     [](const coordinator::Fleet& fleet, double) { return static_cast<double>(fleet.counters.steps_that_differ); }},
};

// How often, in seconds, metrics that need a scan of a large fleet's members are set. Scrapes are seldom more frequent.
constexpr double kMembersSeconds = 1;

constexpr const char* kFailureCauses[] = {"session_ended", "heartbeat_timeout", "hang",
                                          "reported",      "integrity",         "unreachable"};
struct RecoveryPhase {
  const char* name;
  double coordinator::RecoveryDurations::*seconds;
};
constexpr RecoveryPhase kRecoveryPhases[] = {{"detect", &coordinator::RecoveryDurations::detect},
                                             {"rendezvous", &coordinator::RecoveryDurations::rendezvous},
                                             {"load", &coordinator::RecoveryDurations::load},
                                             {"first_step", &coordinator::RecoveryDurations::first_step}};
constexpr coordinator::Phase kPhases[] = {coordinator::Phase::kForming,    coordinator::Phase::kAdopting,
                                          coordinator::Phase::kLoading,    coordinator::Phase::kTraining,
                                          coordinator::Phase::kRecovering, coordinator::Phase::kFinishing,
                                          coordinator::Phase::kDone,       coordinator::Phase::kFailed};
constexpr coordinator::MemberState kMemberStates[] = {
    coordinator::MemberState::kSpare,   coordinator::MemberState::kJoined,   coordinator::MemberState::kReady,
    coordinator::MemberState::kLoading, coordinator::MemberState::kTraining, coordinator::MemberState::kFinished,
    coordinator::MemberState::kLost};

prometheus::Family<prometheus::Gauge>& GaugeFamily(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Counter>& CounterFamily(prometheus::Registry& registry, const char* name,
                                                       const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

void RaiseTo(prometheus::Counter& counter, double value) { counter.Increment(value - counter.Value()); }

}  // namespace

// One gauge per rank. A rank that a round of observations leaves out loses its gauge, which would otherwise show its
// last value for as long as this process lives. Series are kept here, since finding one by its label costs far more
// than setting it.
class RankGauges {
 public:
  explicit RankGauges(prometheus::Family<prometheus::Gauge>& family) : family_(family) {}

  void Set(int rank, double value) {
    const auto at = static_cast<size_t>(rank);
    if (ranks_.size() <= at) ranks_.resize(at + 1);
    Series& series = ranks_[at];
    if (series.gauge == nullptr) series.gauge = &family_.Add({{"rank", absl::StrCat(rank)}});
    series.gauge->Set(value);
    series.round = round_;
  }

  void EndRound() {
    for (Series& series : ranks_) {
      if (series.gauge != nullptr && series.round != round_) family_.Remove(std::exchange(series.gauge, nullptr));
    }
    ++round_;
  }

 private:
  struct Series {
    prometheus::Gauge* gauge = nullptr;
    int64_t round = 0;  // the last in which it was set
  };

  prometheus::Family<prometheus::Gauge>& family_;
  std::vector<Series> ranks_;
  int64_t round_ = 0;
};

struct CoordinatorMetrics::Families {
  std::vector<prometheus::Gauge*> gauges;      // in the order of kGauges
  std::vector<prometheus::Counter*> counters;  // in the order of kCounters
  prometheus::Family<prometheus::Gauge>*phase, *run_info, *validation_loss, *members;
  prometheus::Family<prometheus::Gauge>* recovery;
  prometheus::Family<prometheus::Counter>*rank_failures, *refusals, *divergences;
  prometheus::Gauge* last_commit;
  std::optional<RankGauges> heartbeat_age, straggler;
  double members_observed = -kMembersSeconds;

  void ObserveMembers(const coordinator::Fleet& fleet, double now);
};

CoordinatorMetrics::CoordinatorMetrics(prometheus::Registry& registry) : families_(std::make_unique<Families>()) {
  for (const GaugeRow& row : kGauges) families_->gauges.push_back(&GaugeFamily(registry, row.name, row.help).Add({}));
  for (const CounterRow& row : kCounters) {
    families_->counters.push_back(&CounterFamily(registry, row.name, row.help).Add({}));
  }
  families_->phase = &GaugeFamily(registry, "zerofleet_coordinator_phase", "1 for the phase the run is in, else 0.");
  families_->run_info = &GaugeFamily(registry, "zerofleet_coordinator_run_info", "The run, in its labels; always 1.");
  families_->validation_loss = &GaugeFamily(registry, "zerofleet_coordinator_validation_loss",
                                            "Mean cross-entropy per token of the last evaluation, in nats.");
  families_->members = &GaugeFamily(registry, "zerofleet_coordinator_members", "Workers known to it, by state.");
  families_->heartbeat_age.emplace(
      GaugeFamily(registry, "zerofleet_coordinator_heartbeat_age_seconds", "Time since a rank was last heard."));
  families_->straggler.emplace(GaugeFamily(registry, "zerofleet_coordinator_straggler_ratio",
                                           "Time a rank's own part of a step takes over the median of all ranks, of "
                                           "the phase in which it is furthest behind."));
  families_->rank_failures =
      &CounterFamily(registry, "zerofleet_coordinator_rank_failures_total", "Ranks lost or failed, by cause.");
  families_->divergences = &CounterFamily(registry, "zerofleet_coordinator_divergences_total",
                                          "Steps that diverged: not finite, or a spike of the loss.");
  families_->refusals = &CounterFamily(registry, "zerofleet_coordinator_refused_clients_total",
                                       "Clients turned away, by what they lacked.");
  for (const char* cause : Refusals::kCauses) families_->refusals->Add({{"cause", cause}});
  families_->last_commit = &GaugeFamily(registry, "zerofleet_coordinator_checkpoint_last_commit_timestamp_seconds",
                                        "Unix time of the newest commit; 0 if none.")
                                .Add({});
  families_->recovery = &GaugeFamily(registry, "zerofleet_coordinator_recovery_duration_seconds",
                                     "Time the last recovery took, by phase; 0 if there was none.");
}

CoordinatorMetrics::~CoordinatorMetrics() = default;

void CoordinatorMetrics::Families::ObserveMembers(const coordinator::Fleet& fleet, double now) {
  members_observed = now;
  std::map<coordinator::MemberState, int> by_state;
  for (const coordinator::Member& member : fleet.members) {
    ++by_state[member.state];
    if (member.rank >= 0) heartbeat_age->Set(member.rank, now - member.last_heard);
  }
  heartbeat_age->EndRound();
  by_state[coordinator::MemberState::kSpare] = static_cast<int>(fleet.spares.size());
  for (coordinator::MemberState state : kMemberStates)
    members->Add({{"state", coordinator::Name(state)}}).Set(by_state[state]);
  for (const coordinator::Lag& lag : coordinator::LagsOf(fleet)) straggler->Set(lag.rank, lag.ratio());
  straggler->EndRound();
}

void CoordinatorMetrics::Observe(const coordinator::Fleet& fleet, double now) {
  for (size_t i = 0; i < std::size(kGauges); ++i) families_->gauges[i]->Set(kGauges[i].value(fleet, now));
  for (size_t i = 0; i < std::size(kCounters); ++i) RaiseTo(*families_->counters[i], kCounters[i].value(fleet, now));
  for (coordinator::Phase phase : kPhases)
    families_->phase->Add({{"phase", coordinator::Name(phase)}}).Set(phase == fleet.phase ? 1 : 0);
  families_->run_info
      ->Add({{"run", fleet.parameters.run}, {"checkpoint_dir", fleet.parameters.config.checkpoint().dir()}})
      .Set(1);
  if (fleet.training.last_evaluated_step >= 0) {
    families_->validation_loss->Add({}).Set(fleet.training.last_evaluation.loss());
    for (const v1::SetLoss& set : fleet.training.last_evaluation.sets()) {
      families_->validation_loss->Add({{"set", set.name()}}).Set(set.loss());
    }
  }
  const bool is_large = fleet.members.size() > coordinator::kMostInlineRanks;
  if (!is_large || fleet.ended() || now - families_->members_observed >= kMembersSeconds) {
    families_->ObserveMembers(fleet, now);
  }
  for (const RecoveryPhase& phase : kRecoveryPhases) {
    families_->recovery->Add({{"phase", phase.name}}).Set(fleet.counters.recovery.*phase.seconds);
  }
  RaiseTo(families_->divergences->Add({{"kind", "not_finite"}}), static_cast<double>(fleet.counters.not_finite));
  RaiseTo(families_->divergences->Add({{"kind", "spike"}}), static_cast<double>(fleet.counters.spikes));
  for (const char* cause : kFailureCauses) {
    auto count = fleet.counters.rank_failures.find(cause);
    RaiseTo(families_->rank_failures->Add({{"cause", cause}}),
            count == fleet.counters.rank_failures.end() ? 0.0 : static_cast<double>(count->second));
  }
}

void CoordinatorMetrics::CountRefusal(const char* cause) { families_->refusals->Add({{"cause", cause}}).Increment(); }

void CoordinatorMetrics::SetLastCommit(int64_t unix_seconds) {
  families_->last_commit->Set(static_cast<double>(unix_seconds));
}

}  // namespace zerofleet::services
