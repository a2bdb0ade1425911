// Addresses survive a round trip, damaged ones are refused, and shared GPUs are found.
#include "worker/collective/nccl_address.h"

#include <gtest/gtest.h>

#include "worker/collective/sealed.h"

namespace zerofleet {
namespace {

NcclAddress Example() {
  NcclAddress address{std::string(kNcclIdBytes, 'n'), "GPU-1", std::string("any\0bytes", 9)};
  address.nccl_id[3] = '\0';
  return address;
}

TEST(NcclAddressTest, ReturnsWhatWasWrapped) {
  EXPECT_EQ(UnwrapNcclAddress(WrapNcclAddress(Example())).value(), Example());
  EXPECT_EQ(UnwrapNcclAddress(WrapNcclAddress({})).value(), NcclAddress());
}

TEST(NcclAddressTest, RefusesEveryTruncationAndEveryFlippedBit) {
  const std::string wrapped = WrapNcclAddress(Example());
  for (size_t length = 0; length < wrapped.size(); length++) {
    EXPECT_TRUE(absl::IsInvalidArgument(UnwrapNcclAddress(wrapped.substr(0, length)).status())) << length;
  }
  for (size_t bit = 0; bit < wrapped.size() * 8; bit++) {
    std::string flipped = wrapped;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_TRUE(absl::IsInvalidArgument(UnwrapNcclAddress(flipped).status())) << bit;
  }
}

// Correctly sealed, but malformed inside.
TEST(NcclAddressTest, RefusesFieldsThatDoNotFit) {
  const std::string wrapped = WrapNcclAddress(Example());
  const std::string bytes = Unseal("ZFNCC01\n", wrapped).value();
  for (size_t length = 1; length < bytes.size(); length++) {
    const std::string cut = Seal("ZFNCC01\n", bytes.substr(0, length));
    EXPECT_TRUE(absl::IsInvalidArgument(UnwrapNcclAddress(cut).status())) << length;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(UnwrapNcclAddress(Seal("ZFNCC01\n", bytes + "x")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(UnwrapNcclAddress(Seal("ZFUCX01\n", bytes)).status()));
  std::string huge = bytes;
  huge[4 + kNcclIdBytes + 3] = '\xff';  // device_id of 4 GiB
  EXPECT_TRUE(absl::IsInvalidArgument(UnwrapNcclAddress(Seal("ZFNCC01\n", huge)).status()));
  const std::string short_id = std::string("\1\0\0\0n", 5) + std::string(8, '\0');
  EXPECT_TRUE(absl::IsInvalidArgument(UnwrapNcclAddress(Seal("ZFNCC01\n", short_id)).status()));
}

TEST(NcclAddressTest, NamesTheRankWhoseAddressIsBad) {
  const std::vector<std::string> wrapped = {WrapNcclAddress(Example()), "localhost:1"};
  const absl::Status status = UnwrapNcclAddresses(wrapped).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message().substr(0, 8), "rank 1: ");
}

std::vector<NcclAddress> On(const std::vector<std::string>& devices) {
  std::vector<NcclAddress> addresses;
  for (const std::string& device : devices) addresses.push_back({std::string(kNcclIdBytes, 'n'), device, ""});
  return addresses;
}

TEST(NcclAddressTest, FindsTheFirstTwoRanksOnOneDevice) {
  EXPECT_FALSE(FindSharedDevice(On({})).has_value());
  EXPECT_FALSE(FindSharedDevice(On({"a", "b", "c"})).has_value());
  EXPECT_FALSE(FindSharedDevice(On({"", "", "a"})).has_value());
  const std::optional<SharedDevice> shared = FindSharedDevice(On({"a", "b", "c", "b", "a"}));
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(shared->first, 1);
  EXPECT_EQ(shared->second, 3);
  EXPECT_EQ(shared->device_id, "b");
}

}  // namespace
}  // namespace zerofleet
