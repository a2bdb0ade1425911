// Draws a run from the seed; see run_plan.h.
#include "tests/sim/run_plan.h"

#include "tests/sim/curriculum.h"

namespace zerofleet::sim {

RunPlan DrawPlan(World& world, uint64_t seed) {
  constexpr int kRestarts[] = {0, 1, 3, kAmpleRestarts, kAmpleRestarts, kAmpleRestarts, kAmpleRestarts, kAmpleRestarts};
  RunPlan plan;
  v1::Config& config = plan.config;
  config.mutable_parallel()->set_workers(1 + world.Below(4));
  config.mutable_parallel()->set_tensor(1);
  config.set_steps(6 + world.Below(30));
  config.mutable_batch()->set_global_sequences(kBatch);  // every world size drawn so far divides it
  config.mutable_batch()->set_micro_sequences(1);
  config.mutable_restart()->set_max_per_rank(kRestarts[world.Below(8)]);
  config.mutable_restart()->set_window_steps(world.Chance(0.3) ? 5 : 0);
  config.mutable_restart()->set_spares(world.Chance(0.3) ? 1 + world.Below(2) : 0);
  config.mutable_restart()->set_min_workers(world.Chance(0.3) ? 1 + world.Below(plan.workers()) : 0);
  config.mutable_restart()->set_hang_timeout_seconds(kHangTimeout);
  config.mutable_restart()->set_heartbeat_timeout_seconds(kHeartbeatTimeout);
  config.mutable_restart()->set_form_timeout_seconds(kFormTimeout);
  config.mutable_checkpoint()->set_stall_timeout_seconds(kStallTimeout);
  config.mutable_restart()->set_load_timeout_seconds(kFormTimeout);
  plan.keep = 1 + world.Below(3);
  config.mutable_checkpoint()->set_keep(plan.keep);
  plan.save_every = 1 + world.Below(4);
  config.mutable_checkpoint()->set_every_steps(plan.save_every);
  if (seed % 5 == 1 || seed % 5 == 4) {
    config.mutable_checkpoint()->set_snapshot_every_steps(1 + world.Below(3));
    config.mutable_checkpoint()->set_replicate(world.Chance(0.7) ? 1 : 0);
    if (world.Chance(0.7)) plan.save_every = 20;  // so that snapshots in memory are newer
    config.mutable_checkpoint()->set_every_steps(plan.save_every);
  }
  if (seed % 3 == 2) plan.most_inline_ranks = 1;
  plan.hosts = 1 + world.Below(3);
  plan.repeats = world.Chance(0.3);
  plan.faults = world.Chance(0.1) ? 0 : 2 + world.Below(8);  // some runs meet no fault
  plan.nudges = plan.faults > 0 && world.Chance(0.6) ? 0.15 : 0;
  plan.last_fault = world.Uniform(4, 14);
  if (seed % 11 == 3) {
    constexpr int kMany[] = {6, 8, 12, 16};
    config.mutable_parallel()->set_workers(kMany[world.Below(4)]);
    plan.hosts = 1 + world.Below(8);
  }
  if (seed % 13 == 5 && plan.workers() % 2 == 0) {
    config.mutable_parallel()->set_tensor(2);
    config.mutable_restart()->set_min_workers(0);  // so that lost workers come back
    plan.hosts = 1;                                // a group across nodes is reported, or refused at the start
  }
  if (seed % 7 == 2 || seed % 7 == 5) {
    config.set_on_divergence("rollback");
    config.mutable_divergence()->set_max_rollbacks(1 + world.Below(3));
    for (int left = 1 + world.Below(4); left > 0; --left) {
      plan.bad_batches.insert(world.Below(static_cast<int>(config.steps()) + 4));
    }
  }
  if (seed % 4 == 3 && plan.tensor() == 1) {
    config.mutable_reduce()->set_order("samples");
    config.mutable_batch()->set_micro_sequences(1 + 2 * world.Below(2));
    config.mutable_parallel()->set_workers(plan.workers() + world.Below(4));  // need not divide the micro-batches
    if (world.Chance(0.7)) config.mutable_restart()->set_min_workers(1);
  }
  if (seed % 9 == 4) plan.second_coordinators = 1 + world.Below(2);
  return plan;
}

}  // namespace zerofleet::sim
