// A missing library is reported, and a missing function is null.
#include "worker/device/cuda/libraries/vendor_library.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::device::cuda {
namespace {

using ::testing::HasSubstr;

TEST(VendorLibraryTest, AMissingLibraryIsNamed) {
  const VendorLibrary library("libzerofleet_has_no_such.so.1");
  EXPECT_EQ(library.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(library.status().message()), HasSubstr("libzerofleet_has_no_such.so.1"));
  EXPECT_EQ(library.Find("anything"), nullptr);
}

TEST(VendorLibraryTest, FindsWhatALibraryHas) {
  const VendorLibrary library("libm.so.6");
  EXPECT_TRUE(library.status().ok());
  EXPECT_NE(library.Find("cos"), nullptr);
  EXPECT_EQ(library.Find("no_such_function"), nullptr);
}

}  // namespace
}  // namespace zerofleet::device::cuda
