// Where large vectors lie, and that they can be of any size.
#include "base/huge_pages.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace zerofleet {
namespace {

template <typename T>
using Large = std::vector<T, HugePageAllocator<T>>;

TEST(HugePages, VectorsOfAnySizeHoldWhatIsWritten) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, kHugePageBytes - 1, kHugePageBytes, kHugePageBytes + 1, 9'999'999ul}) {
    Large<uint8_t> data(bytes, 7);
    for (size_t at = 0; at < bytes; at += 4096) data[at] = 8;
    for (size_t i = 0; i < 3; ++i) data.push_back(9);  // moves to a larger place
    ASSERT_EQ(data.size(), bytes + 3);
    EXPECT_EQ(std::count(data.begin(), data.end(), 8), (bytes + 4095) / 4096);
    EXPECT_EQ(std::count(data.begin(), data.end(), 7), bytes - (bytes + 4095) / 4096);
    EXPECT_EQ(std::count(data.begin(), data.end(), 9), 3);
  }
}

TEST(HugePages, LargeVectorsBeginWithOne) {
  const Large<uint64_t> data(kHugePageBytes / sizeof(uint64_t));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data.data()) % kHugePageBytes, 0);
}

TEST(HugePages, MoreMemoryThanThereCanBeThrows) {
  EXPECT_THROW(MapHugePages(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(MapHugePages(SIZE_MAX - 2 * kHugePageBytes), std::bad_alloc);
}

}  // namespace
}  // namespace zerofleet
