// Predicts the time of a step from what it computes and moves, and from the machine's rates: docs/planning.md has the
// equations.
//
// Pure arithmetic. Where collectives and copies overlap with products, they count only as far as they outlast the
// products, and in full for the first or last unit, which overlaps with nothing. On the CPU device the same cores do
// everything, so nothing overlaps.
#ifndef ZEROFLEET_CLI_PLANNER_ROOFLINE_H_
#define ZEROFLEET_CLI_PLANNER_ROOFLINE_H_

#include "cli/planner/traffic.h"

namespace zerofleet::cli {

struct Rates {
  double flops_per_second = 0;       // what matrix products reach
  double peak_flops_per_second = 0;  // the peak that MFU refers to
  double memory_bytes_per_second = 0;
  double host_memory_bytes_per_second = 0;  // this rank's share
  double peer_bytes_per_second = 0, link_bytes_per_second = 0, host_link_bytes_per_second = 0;
  bool overlaps = true;
  double nvme_bytes_per_second = 0;  // this rank's share of its node's disks
  double operation_seconds = 0;      // fixed time of a gather or a reduction, in addition to its bytes
};

// The work of one rank in one step.
struct StepWork {
  double model_flops = 0, recomputed_flops = 0;
  double pointwise_bytes = 0;  // norms, residuals, GELU and the loss: read and written, forward and backward
  StepTraffic traffic = {};
  bool gathers_twice = false;                      // in stage 3: once for the forward and once for the backward
  double update_bytes = 0, host_update_bytes = 0;  // read and written by the optimizer
  double disk_bytes = 0;                           // states on disk that the update reads and writes
  double copied_down = 0, copied_up = 0;           // offload: gradients, parameters
  double activations_copied = 0;                   // to the host in the forward; the backward copies as many back
};

struct StepTime {
  double forward = 0, backward = 0;               // products and pointwise operations
  double exposed_gather = 0, exposed_reduce = 0;  // time of the data group's collectives that no computation hides
  double tensor = 0;                              // never hidden: the next product needs the sum
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
