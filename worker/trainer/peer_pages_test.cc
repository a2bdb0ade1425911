// Asking for the others of a large view, and answers that are refused.
#include "worker/trainer/peer_pages.h"

#include "absl/strings/str_cat.h"
#include "coordinator/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Member MemberOf(int rank) {
  v1::Member member;
  member.set_rank(rank);
  member.set_transport_address(absl::StrCat("t", rank));
  member.set_service_address(absl::StrCat("s", rank));
  return member;
}

void SetAxes(int tensor, v1::Assignment& assignment) {
  const coordinator::Axes axes = coordinator::AxesOf(tensor, assignment.world_size());
  for (const coordinator::Axis& axis : axes.list()) {
    v1::Axis& told = *assignment.add_axes();
    told.set_name(axis.name);
    told.set_degree(axis.degree);
  }
}

v1::Assignment AssignmentOf(int rank, int nodes, int ranks_each, int tensor = 1) {
  v1::Assignment assignment;
  assignment.set_rank(rank);
  assignment.set_world_size(nodes * ranks_each);
  assignment.set_team(1);
  SetAxes(tensor, assignment);
  assignment.add_nodes()->set_nodes(nodes);
  assignment.mutable_nodes(0)->set_ranks(ranks_each);
  return assignment;
}

class PeerPages : public ::testing::Test {
 protected:
  absl::StatusOr<PeerAddresses> Get(const v1::Assignment& assignment) {
    const absl::StatusOr<parallel::Mesh> mesh = parallel::Mesh::Create(assignment, 1);
    EXPECT_TRUE(mesh.ok()) << mesh.status();
    return PeersOf(assignment, *mesh, [this](const v1::PeersWanted& wanted) -> absl::StatusOr<v1::Peers> {
      pages_.push_back(wanted.ranks_size());
      v1::Peers peers;
      for (int rank : wanted.ranks()) *peers.add_members() = MemberOf(rank);
      spoil_(peers);
      return peers;
    });
  }

  std::vector<int> pages_;
  std::function<void(v1::Peers&)> spoil_ = [](v1::Peers&) {};
};

TEST_F(PeerPages, ComeInPagesOfABoundedSize) {
  const auto addresses = Get(AssignmentOf(149, 75, 2));
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  EXPECT_THAT(pages_, ElementsAre(64, 64, 22));
  ASSERT_EQ(addresses->transport.size(), 150u);
  for (int rank = 0; rank < 150; ++rank) EXPECT_EQ(addresses->transport[rank], absl::StrCat("t", rank));
  EXPECT_EQ(addresses->replica_holder, "s1");  // two places further, wrapping around
  pages_.clear();
  ASSERT_TRUE(Get(AssignmentOf(0, 64, 2)).ok());
  EXPECT_THAT(pages_, ElementsAre(64, 64));  // no empty page at the end
}

TEST_F(PeerPages, OnlyRanksOfItsOwnGroupsAreAskedFor) {
  const auto addresses = Get(AssignmentOf(5, 4, 4, 4));
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  EXPECT_THAT(pages_, ElementsAre(7));  // its data group has 1, 5, 9 and 13, its tensor group 4 to 7
  EXPECT_EQ(addresses->transport[13], "t13");
  EXPECT_EQ(addresses->transport[0], "");
}

TEST_F(PeerPages, OfASmallViewAreInItsAssignment) {
  v1::Assignment assignment;
  assignment.set_world_size(2);
  assignment.set_team(1);
  SetAxes(/*tensor=*/1, assignment);
  for (int rank = 0; rank < 2; ++rank) *assignment.add_members() = MemberOf(rank);
  const auto addresses = Get(assignment);
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  EXPECT_THAT(addresses->transport, ElementsAre("t0", "t1"));
  EXPECT_EQ(addresses->replica_holder, "s1");
  EXPECT_TRUE(pages_.empty());
}

TEST_F(PeerPages, MustHaveWhoWasAskedFor) {
  const std::vector<std::function<void(v1::Peers&)>> faults = {
      [](v1::Peers& peers) { peers.mutable_members()->RemoveLast(); },
      [](v1::Peers& peers) { *peers.add_members() = MemberOf(0); },
      [](v1::Peers& peers) { peers.mutable_members(1)->set_rank(-1); },
      [](v1::Peers& peers) { peers.mutable_members(1)->set_rank(99'999); }};
  for (const auto& fault : faults) {
    spoil_ = fault;
    const absl::Status status = Get(AssignmentOf(0, 100, 1)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("was asked for 64 ranks from 0 on"));
  }
}

TEST_F(PeerPages, AnErrorEndsTheAsking) {
  const v1::Assignment assignment = AssignmentOf(0, 100, 1);
  const absl::Status status = PeersOf(assignment, *parallel::Mesh::Create(assignment, 1),
                                      [](const v1::PeersWanted&) -> absl::StatusOr<v1::Peers> {
                                        return absl::AbortedError("the view is over");
                                      })
                                  .status();
  EXPECT_EQ(status, absl::AbortedError("the view is over"));
}

}  // namespace
}  // namespace zerofleet::trainer
