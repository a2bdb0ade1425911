// Pinning, each time in a process of its own, since it cannot be undone.
#include "worker/device/cpu/isa.h"

#include <cstdlib>
#include <initializer_list>
#include <iostream>

#include "gtest/gtest.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet::device {
namespace {

using testing::ExitedWithCode;

// Pins to each of `sets` in turn and prints the results.
void PinAndExit(std::initializer_list<const char*> sets) {
  for (const char* isa : sets) {
    const absl::Status status = PinIsa(isa);
    std::cerr << isa << ": " << status << ", kernels " << kernels::TargetName() << ", oneDNN " << PrimitiveIsaName()
              << ", described as " << IsaName() << "\n";
  }
  std::exit(0);
}

class IsaDeathTest : public testing::Test {
 protected:
  // Each child starts from scratch, since this process may have run ops already.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(IsaDeathTest, IsTheBestThatIsAllowed) {
  EXPECT_EXIT(PinAndExit({"avx2"}), ExitedWithCode(0), "^avx2: OK, kernels AVX2, oneDNN AVX2, described as AVX2\n$");
  // Builds with sanitizers have kernels for AVX2 only.
  EXPECT_EXIT(PinAndExit({"sse4"}), ExitedWithCode(0),
              "^sse4: OK, kernels (SCALAR|AVX2), oneDNN SSE4.1, described as (SCALAR|AVX2)\n$");
  EXPECT_EXIT(PinAndExit({"auto", "avx2"}), ExitedWithCode(0),
              "avx2: FAILED_PRECONDITION: device_isa: avx2 comes too late");
  EXPECT_EXIT(PinAndExit({"avx2", "auto", "avx2"}), ExitedWithCode(0), "auto: OK.*\navx2: OK");
}

TEST_F(IsaDeathTest, IsNotChangedAgain) {
  EXPECT_EXIT(
      PinAndExit({"avx2", "avx512"}), ExitedWithCode(0),
      "avx512: FAILED_PRECONDITION: device_isa: avx512 comes too late: this process computes with avx2 already");
  EXPECT_EXIT(PinAndExit({"sse9"}), ExitedWithCode(0),
              "unknown instruction set 'sse9'; use auto, sse4, avx2, avx512 or amx");
}

TEST_F(IsaDeathTest, MustBeThere) {
  EXPECT_EXIT(
      PinAndExit({"amx"}), ExitedWithCode(0),
      "amx: OK|amx: FAILED_PRECONDITION: device_isa: amx is more than this CPU has, which is .*; pin the fleet");
}

}  // namespace
}  // namespace zerofleet::device
