// The receiver of each op's figures as it runs (profiled_ops.h): a profile that adds them up, or a trace that keeps
// each.
#ifndef ZEROFLEET_WORKER_DEVICE_PROFILE_OP_SINK_H_
#define ZEROFLEET_WORKER_DEVICE_PROFILE_OP_SINK_H_

#include <string_view>

namespace zerofleet::device {

// One call of an op. Bytes count its inputs and outputs once each: what it would move if a cache held everything in
// between.
struct OpCall {
  double began = 0, seconds = 0;  // by the machine's monotonic clock
  double flops = 0, bytes = 0;
};

class OpSink {
 public:
  virtual ~OpSink() = default;
  // Called when the op is done, on the thread that called the op.
  virtual void Add(std::string_view op, const OpCall& call) = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_PROFILE_OP_SINK_H_
