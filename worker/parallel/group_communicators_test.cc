// One communicator a group, and one abort for all of them.
#include "worker/parallel/group_communicators.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/in_process.h"

namespace zerofleet::parallel {
namespace {

TEST(GroupCommunicators, ALoneRankJoinsItsDataGroupOnly) {
  const std::unique_ptr<collective::CollectiveEndpoint> endpoint = collective::CreateInProcessEndpoint();
  const GroupCommunicators groups = *GroupCommunicators::Join(Mesh::OfOneNode(0, 1), {endpoint->address()}, *endpoint);
  ASSERT_EQ(groups.all().size(), 1u);
  EXPECT_EQ(groups.data().group(), kDataGroup);
  EXPECT_EQ(groups.data().size(), 1);
}

TEST(GroupCommunicators, AnEndpointsRefusalIsReturned) {
  const std::unique_ptr<collective::CollectiveEndpoint> endpoint = collective::CreateInProcessEndpoint();
  const std::vector<std::string> addresses = {endpoint->address(), endpoint->address()};
  EXPECT_FALSE(GroupCommunicators::Join(Mesh::OfOneNode(1, 2), addresses, *endpoint).ok());
}

TEST(GroupCommunicators, AnAbortReachesEveryGroup) {
  std::vector<std::unique_ptr<collective::Communicator>> data = collective::CreateInProcessGroup(kDataGroup, 2),
                                                         tensor = collective::CreateInProcessGroup(kTensorGroup, 2),
                                                         mine;
  mine.push_back(std::move(tensor[0]));
  mine.push_back(std::move(data[0]));
  const GroupCommunicators groups(std::move(mine));
  EXPECT_EQ(groups.data().group(), kDataGroup);
  EXPECT_EQ(groups.Of(kTensorGroup).group(), kTensorGroup);
  groups.Abort(absl::UnavailableError("the view is over"));
  float value = 1;
  for (const char* group : {kDataGroup, kTensorGroup}) {
    EXPECT_EQ(groups.Of(group).AllReduce({&value, device::DType::kF32}, 1, "x").Wait().message(), "the view is over");
  }
}

}  // namespace
}  // namespace zerofleet::parallel
