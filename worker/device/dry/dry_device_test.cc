// A dry device grants everything and is always done.
#include "worker/device/dry/dry_device.h"

#include "gtest/gtest.h"

namespace zerofleet::device {
namespace {

TEST(DryDevice, GrantsMoreThanAnyMachineHas) {
  DryDevice device;
  constexpr int64_t kExabyte = int64_t{1} << 60;
  const auto reserved = device.Reserve(kExabyte);
  ASSERT_TRUE(reserved.ok());
  EXPECT_EQ((*reserved)->bytes(), kExabyte);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*reserved)->data()) % 64, 0u);
}

TEST(DryDevice, HasDoneWhateverIsEnqueued) {
  DryDevice device;
  const std::unique_ptr<Stream> stream = *device.CreateStream();
  device.ops().Zero(*stream, DryDevice::Address(), int64_t{1} << 40);  // nothing is written
  const std::shared_ptr<Event> event = stream->Record();
  EXPECT_TRUE(*event->Reached());
  EXPECT_TRUE(stream->Synchronize().ok());
}

}  // namespace
}  // namespace zerofleet::device
