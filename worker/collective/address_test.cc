// Addresses survive a round trip, damaged ones are refused, and shared GPUs are found.
#include "worker/collective/address.h"

#include <gtest/gtest.h>
#include <xxhash.h>

namespace zerofleet::collective {
namespace {

v1::CollectiveAddress Example() {
  v1::CollectiveAddress address;
  v1::CollectiveAddress::Group& group = (*address.mutable_groups())["data"];
  group.set_nccl_id(std::string(3, '\0') + std::string(kNcclIdBytes - 3, 'n'));
  group.set_ucx_worker(std::string("any\0bytes", 9));
  address.set_device_id("GPU-1");
  return address;
}

std::string SealBytes(const std::string& bytes) {
  v1::SealedCollectiveAddress sealed;
  sealed.set_address(bytes);
  sealed.set_digest(XXH3_64bits(bytes.data(), bytes.size()));
  return sealed.SerializeAsString();
}

TEST(AddressTest, OpensWhatWasSealed) {
  EXPECT_EQ(OpenAddress(SealAddress(Example())).value().DebugString(), Example().DebugString());
  EXPECT_TRUE(OpenAddress(SealAddress({})).ok());
}

TEST(AddressTest, RefusesEveryTruncationAndEveryFlippedBit) {
  const std::string sealed = SealAddress(Example());
  for (size_t length = 0; length < sealed.size(); length++) {
    EXPECT_TRUE(absl::IsInvalidArgument(OpenAddress(sealed.substr(0, length)).status())) << length;
  }
  for (size_t bit = 0; bit < sealed.size() * 8; bit++) {
    std::string flipped = sealed;
    flipped[bit / 8] ^= static_cast<char>(1 << bit % 8);
    EXPECT_TRUE(absl::IsInvalidArgument(OpenAddress(flipped).status())) << bit;
  }
}

// The seal is valid, but the content is malformed.
TEST(AddressTest, RefusesContentThatIsNone) {
  EXPECT_TRUE(absl::IsInvalidArgument(OpenAddress(SealBytes("localhost:1")).status()));
  v1::CollectiveAddress short_id = Example();
  (*short_id.mutable_groups())["data"].set_nccl_id("n");
  EXPECT_EQ(OpenAddress(SealAddress(short_id)).status().message(),
            "a collective address has an NCCL id of 1 bytes, not 128");
}

TEST(AddressTest, NamesGroupAndRankOfABadAddress) {
  const std::string good = SealAddress(Example());
  const auto message = [&](const std::string& name, const std::string& other) {
    const absl::Status status = OpenGroupAddresses({.name = name, .rank = 0, .addresses = {good, other}}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(message("data", "localhost:1"), "collectives: group data, rank 1: not a collective address (11 bytes)");
  EXPECT_EQ(message("tensor", good), "collectives: group tensor, rank 0: its address serves no group of that name");
  EXPECT_EQ(OpenGroupAddresses({.name = "data", .rank = 0, .addresses = {good, good}}).value().device_ids,
            (std::vector<std::string>{"GPU-1", "GPU-1"}));
}

TEST(AddressTest, FindsTheFirstTwoRanksOnOneDevice) {
  using Ids = std::vector<std::string>;
  EXPECT_FALSE(FindSharedDevice(Ids{}).has_value());
  EXPECT_FALSE(FindSharedDevice(Ids{"a", "b", "c"}).has_value());
  EXPECT_FALSE(FindSharedDevice(Ids{"", "", "a"}).has_value());
  const std::optional<SharedDevice> shared = FindSharedDevice(Ids{"a", "b", "c", "b", "a"});
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(shared->first, 1);
  EXPECT_EQ(shared->second, 3);
  EXPECT_EQ(shared->device_id, "b");
}

}  // namespace
}  // namespace zerofleet::collective
