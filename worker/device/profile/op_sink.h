// Who is told of ops as they run (profiled_ops.h): a profile that adds them up, a trace that keeps each.
#ifndef ZEROFLEET_WORKER_DEVICE_PROFILE_OP_SINK_H_
#define ZEROFLEET_WORKER_DEVICE_PROFILE_OP_SINK_H_

#include <string_view>

namespace zerofleet::device {

// One call of an op. Bytes are those of its inputs and outputs, each once: what it would move with a cache for all that
// is between.
struct OpCall {
  double began = 0, seconds = 0;  // by the machine's monotonic clock
  double flops = 0, bytes = 0;
};

class OpSink {
 public:
  virtual ~OpSink() = default;
  // When the op is done, on the thread that called it.
  virtual void Add(std::string_view op, const OpCall& call) = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_PROFILE_OP_SINK_H_
