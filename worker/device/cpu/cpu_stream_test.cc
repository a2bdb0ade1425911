// A stream keeps the first failure and returns it once.
#include "worker/device/cpu/cpu_stream.h"

#include "gtest/gtest.h"

namespace zerofleet::device {
namespace {

TEST(CpuStreamTest, FirstFailureSticksUntilSynchronize) {
  CpuStream stream;
  EXPECT_TRUE(stream.Synchronize().ok());
  stream.Keep(absl::OkStatus());
  stream.Keep(absl::ResourceExhaustedError("first"));
  stream.Keep(absl::InternalError("second"));
  stream.Keep(absl::OkStatus());
  EXPECT_EQ(stream.Synchronize(), absl::ResourceExhaustedError("first"));
  EXPECT_TRUE(stream.Synchronize().ok());
}

}  // namespace
}  // namespace zerofleet::device
