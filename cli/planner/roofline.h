// The time of a step from what it computes and moves, and the rates of the machine: docs/planning.md has the equations.
//
// Pure arithmetic. Where collectives and copies run beside products, only what outlasts them counts, and the first or
// last unit's, which has nothing to run beside; on the CPU device the same cores do all of it, one after the other.
#ifndef ZEROFLEET_CLI_PLANNER_ROOFLINE_H_
#define ZEROFLEET_CLI_PLANNER_ROOFLINE_H_

#include "cli/planner/traffic.h"

namespace zerofleet::cli {

struct Rates {
  double flops_per_second = 0;       // that matrix products reach
  double peak_flops_per_second = 0;  // that MFU refers to
  double memory_bytes_per_second = 0;
  double host_memory_bytes_per_second = 0;  // this rank's share
  double peer_bytes_per_second = 0, link_bytes_per_second = 0, host_link_bytes_per_second = 0;
  bool overlaps = true;
  double nvme_bytes_per_second = 0;  // this rank's share of its node's disks
  double operation_seconds = 0;      // of a gather or a reduction, beside its bytes
};

// The work of one rank in one step.
struct StepWork {
  double model_flops = 0, recomputed_flops = 0;
  double pointwise_bytes = 0;  // norms, residuals, GELU and the loss: read and written, forward and backward
  StepTraffic traffic = {};
  bool gathers_twice = false;                      // stage 3: for the forward and again for the backward
  double update_bytes = 0, host_update_bytes = 0;  // read and written by the optimizer
  double disk_bytes = 0;                           // read and written for it, beside the host's update
  double copied_down = 0, copied_up = 0;           // offload: gradients, parameters
  double activations_copied = 0;                   // down in the forward, and as many up in the backward
};

struct StepTime {
  double forward = 0, backward = 0;               // products and what is computed between them
  double exposed_gather = 0, exposed_reduce = 0;  // of the data group's collectives, what no computation hides
  double tensor = 0;                              // nothing hides it: the next product needs the sum
  double update = 0;
  double exposed_copies = 0;
  double mfu = 0;
  double seconds() const {
    return forward + backward + exposed_gather + exposed_reduce + tensor + update + exposed_copies;
  }
};

StepTime Roofline(const StepWork& work, const Rates& rates);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_ROOFLINE_H_
