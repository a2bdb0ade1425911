// A traced device computes the same as without tracing, and reports each op and copy.
#include "worker/device/profile/traced_device.h"

#include <string>
#include <vector>

#include "base/clock.h"
#include "gtest/gtest.h"
#include "worker/device/ops.h"

namespace zerofleet::device {
namespace {

class KeptCalls : public OpSink {
 public:
  void Add(std::string_view op, const OpCall& call) override {
    names.emplace_back(op);
    calls.push_back(call);
  }
  std::vector<std::string> names;
  std::vector<OpCall> calls;
};

TEST(TracedDeviceTest, TellsOfOpsAndCopies) {
  KeptCalls sink;
  const double before = Clock::Real().MonotonicSeconds();
  const std::unique_ptr<Device> device = TraceOps(CreateDevice({.kind = "cpu"}).value(), sink);
  const std::unique_ptr<Stream> stream = device->host().CreateStream().value();
  std::vector<float> x(8), y(8);
  device->ops().Fill(*stream, 8, 3, x.data());
  device->host().Copy(*stream, y.data(), x.data(), 32);
  device->host().ops().Zero(*stream, x.data(), 32);
  EXPECT_EQ(y[7], 3);
  EXPECT_EQ(x[7], 0);
  EXPECT_EQ(sink.names, (std::vector<std::string>{"Fill", kCopyName, "Zero"}));
  EXPECT_EQ(sink.calls[1].bytes, 32);
  double last = before;
  for (const OpCall& call : sink.calls) {
    EXPECT_GE(call.began, last);
    EXPECT_GE(call.seconds, 0);
    last = call.began + call.seconds;
  }
  EXPECT_LE(last, Clock::Real().MonotonicSeconds());
}

}  // namespace
}  // namespace zerofleet::device
