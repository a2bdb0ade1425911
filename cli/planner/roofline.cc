// See roofline.h.
#include "cli/planner/roofline.h"

#include <algorithm>

namespace zerofleet::cli {
namespace {

double SecondsOf(const LinkBytes& bytes, const Rates& rates) {
  const double peer = bytes.peer > 0 ? bytes.peer / rates.peer_bytes_per_second : 0;
  return peer + (bytes.link > 0 ? bytes.link / rates.link_bytes_per_second : 0) +
         bytes.operations * rates.operation_seconds;
}

double Over(double amount, double rate) { return amount > 0 ? amount / rate : 0; }

}  // namespace

StepTime Roofline(const StepWork& work, const Rates& rates) {
  // A backward pass has twice the products of a forward pass, and what is computed again is forward work.
  const double forward_share = 1.0 / 3;
  const double again = work.model_flops > 0 ? work.recomputed_flops / work.model_flops : 0;
  const double products = work.model_flops / rates.flops_per_second;
  const double pointwise = Over(work.pointwise_bytes, rates.memory_bytes_per_second);
  StepTime time;
  time.forward = (products + pointwise) * forward_share;
  time.backward = products * (1 - forward_share + again) + pointwise * (1 - forward_share) * (1 + again / 2);
  time.tensor = SecondsOf(work.traffic.tensor, rates);

  // Work that overlaps with computation of `beside` seconds counts as far as it outlasts it, and its first or last unit
  // (`alone_share`) in any case.
  const auto exposed = [&](double seconds, double beside, double alone_share) {
    if (!rates.overlaps) return seconds;
    const double alone = seconds * alone_share;
    return alone + std::max(0.0, seconds - alone - beside);
  };
  const double gather = SecondsOf(work.traffic.gather, rates), reduce = SecondsOf(work.traffic.reduce, rates);
  const double unit = work.traffic.largest_unit;
  const double forward_gather = work.gathers_twice ? gather / 2 : gather;
  time.exposed_gather = exposed(forward_gather, time.forward, unit);
  // In stage 3 the backward's gathers and the reductions share the links.
  const double in_backward = gather - forward_gather + reduce;
  time.exposed_reduce = exposed(in_backward, time.backward, unit);

  time.update = Over(work.update_bytes, rates.memory_bytes_per_second);
  // A thread reads and writes states on disk while the preceding ones are updated, on the CPU device too.
  const double host_update = std::max(Over(work.host_update_bytes, rates.host_memory_bytes_per_second),
                                      Over(work.disk_bytes, rates.nvme_bytes_per_second));
  time.update += host_update;
  const double down = Over(work.copied_down, rates.host_link_bytes_per_second),
               up = Over(work.copied_up, rates.host_link_bytes_per_second),
               inputs = Over(work.activations_copied, rates.host_link_bytes_per_second);
  time.exposed_copies = exposed(down + inputs, time.backward, unit) + exposed(up, host_update, unit) +
                        exposed(inputs, time.forward, /*alone_share=*/0);
  time.mfu = work.model_flops / rates.peak_flops_per_second / time.seconds();
  return time;
}

}  // namespace zerofleet::cli
