// Which devices can be created, how they describe themselves, and their memory.
#include <pthread.h>

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/device.h"

namespace zerofleet::device {
namespace {

using ::testing::HasSubstr;

TEST(DeviceFactoryTest, AutoIsTheGpuWhereOneIs) {
  const auto device = CreateDevice({.kind = "auto"}).value();
  EXPECT_EQ(device->kind(), CreateDevice({.kind = "cuda"}).ok() ? "cuda" : "cpu");
}

TEST(DeviceFactoryTest, TheCpuSaysWhatItIs) {
  const auto device = CreateDevice({.kind = "cpu", .threads = 2}).value();
  EXPECT_EQ(device->kind(), "cpu");
  EXPECT_TRUE(device->host_addressable());
  EXPECT_THAT(device->description(), HasSubstr("2 threads"));
}

TEST(DeviceFactoryTest, SaysWhatIsWrong) {
  const absl::Status cuda = CreateDevice({.kind = "cuda"}).status();
  if (!cuda.ok()) {
    EXPECT_EQ(cuda.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(cuda.message()), HasSubstr("cuda"));
  }
  EXPECT_EQ(CreateDevice({.kind = "tpu"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateDevice({.kind = "cpu", .threads = 0}).status().code(), absl::StatusCode::kInvalidArgument);
}

// Simulates a limit on processes or memory: a stack as large as the address space cannot be had, however much memory
// may be overcommitted.
TEST(DeviceFactoryTest, ThreadsThatCannotStartAreCounted) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 47), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const absl::Status status = CreateDevice({.kind = "cpu", .threads = 7}).status();
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("can start only 1 of 7 threads"));
  pthread_attr_destroy(&usual);
  pthread_attr_destroy(&huge);
}

TEST(DeviceFactoryTest, ReservationsAreZeroedAndAligned) {
  const auto device = CreateDevice({.kind = "cpu"}).value();
  for (const int64_t bytes : {int64_t{1}, int64_t{4097}, int64_t{5} << 20}) {
    const auto reservation = device->Reserve(bytes).value();
    EXPECT_EQ(reservation->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(reservation->data()) % 64, 0u);
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(reservation->data()[i], std::byte{0});
    std::memset(reservation->data(), 0xff, bytes);
  }
  EXPECT_EQ(device->Reserve(0).value()->bytes(), 0);
}

TEST(DeviceFactoryTest, AReservationTooLargeNamesItsSize) {
  const auto device = CreateDevice({.kind = "cpu"}).value();
  const absl::Status status = device->Reserve(int64_t{1} << 60).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("iB"));
}

TEST(DeviceFactoryTest, CopyCopiesEveryByte) {
  const auto device = CreateDevice({.kind = "cpu", .threads = 2}).value();
  const auto stream = device->CreateStream().value();
  std::vector<char> from(3000001);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7);
  std::vector<char> to(from.size());
  device->Copy(*stream, to.data(), from.data(), static_cast<int64_t>(from.size()));
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(from, to);
}

}  // namespace
}  // namespace zerofleet::device
