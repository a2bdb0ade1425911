// Meshes from assignments, and the assignments that are refused.
#include "worker/parallel/mesh.h"

#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An assignment as the coordinator makes it.
v1::Assignment AssignmentOf(int rank, const std::vector<int>& nodes, int tensor, int team) {
  v1::Assignment assignment;
  assignment.set_rank(rank);
  assignment.set_world_size(static_cast<int>(nodes.size()));
  assignment.set_team(team);
  for (const auto& [name, degree] : {std::pair("tensor", tensor), {"data", assignment.world_size() / tensor}}) {
    v1::Axis& axis = *assignment.add_axes();
    axis.set_name(name);
    axis.set_degree(degree);
  }
  for (int node : nodes) {
    v1::Member& member = *assignment.add_members();
    member.set_rank(assignment.members_size() - 1);
    member.set_node(node);
  }
  return assignment;
}

TEST(Mesh, WithoutTensorParallelismTheDataGroupIsTheView) {
  const Mesh mesh = *Mesh::Create(AssignmentOf(3, {0, 0, 0, 1, 1}, 1, 3), 7);
  EXPECT_EQ(mesh.generation(), 7u);
  EXPECT_EQ(mesh.rank(), 3);
  EXPECT_EQ(mesh.world_size(), 5);
  EXPECT_EQ(mesh.nodes(), 2);
  EXPECT_EQ(mesh.data().name, "data");
  EXPECT_EQ(mesh.data().rank, 3);
  EXPECT_THAT(mesh.data().ranks, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(mesh.data().nodes, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_EQ(mesh.data().team, 3);
  EXPECT_THAT(mesh.tensor().ranks, ElementsAre(3));
}

TEST(Mesh, GroupsAreRowsAndColumns) {
  const Mesh mesh = *Mesh::Create(AssignmentOf(5, {0, 0, 0, 0, 1, 1, 1, 1}, 2, 2), 1);
  EXPECT_THAT(mesh.tensor().ranks, ElementsAre(4, 5));
  EXPECT_EQ(mesh.tensor().rank, 1);
  EXPECT_EQ(mesh.tensor().team, 2);  // a tensor group is always summed as one team
  EXPECT_THAT(mesh.data().ranks, ElementsAre(1, 3, 5, 7));
  EXPECT_EQ(mesh.data().rank, 2);
  EXPECT_THAT(mesh.data().nodes, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(mesh.data().team, 2);
}

// An assignment of a large view counts its nodes instead of naming its members.
v1::Assignment CountedAssignment(const v1::Assignment& named) {
  v1::Assignment assignment = named;
  assignment.clear_members();
  for (const v1::Member& member : named.members()) {
    if (member.node() == assignment.nodes_size()) assignment.add_nodes()->set_nodes(1);
    v1::NodeRun& run = *assignment.mutable_nodes(member.node());
    run.set_ranks(run.ranks() + 1);
  }
  return assignment;
}

TEST(Mesh, IsTheSameOfCountedNodes) {
  const v1::Assignment named = AssignmentOf(5, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2}, 2, 2);
  const Mesh expected = *Mesh::Create(named, 1);
  const auto mesh = Mesh::Create(CountedAssignment(named), 1);
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_EQ(mesh->axes(), expected.axes());
  EXPECT_EQ(mesh->nodes(), expected.nodes());
  EXPECT_EQ(mesh->team(), expected.team());
  for (const auto& [counted, told] :
       {std::pair(&mesh->data(), &expected.data()), std::pair(&mesh->tensor(), &expected.tensor())}) {
    EXPECT_EQ(counted->ranks, told->ranks);
    EXPECT_EQ(counted->nodes, told->nodes);
  }
  EXPECT_EQ(mesh->replica_holder(), expected.replica_holder());
}

TEST(Mesh, CountedNodesMustMakeTheWorld) {
  const v1::Assignment good = CountedAssignment(AssignmentOf(0, {0, 0, 1, 1}, 2, 1));
  ASSERT_TRUE(Mesh::Create(good, 1).ok());
  const std::vector<std::pair<std::string, std::function<void(v1::Assignment&)>>> faults = {
      {"nodes are wrong: its members or its nodes do not make 4 ranks", [](v1::Assignment& a) { a.clear_nodes(); }},
      {"axes make 4 ranks, expected 5", [](v1::Assignment& a) { a.set_world_size(5); }},
      {"do not make 4 ranks", [](v1::Assignment& a) { a.mutable_nodes(1)->set_ranks(-2); }},
  };
  for (const auto& [message, fault] : faults) {
    v1::Assignment bad = good;
    fault(bad);
    EXPECT_THAT(std::string(Mesh::Create(bad, 1).status().message()), HasSubstr(message));
  }
}

TEST(Mesh, ATeamLargerThanTheGroupIsTheGroup) {
  const Mesh mesh = *Mesh::Create(AssignmentOf(1, {0, 0}, 1, 1024), 1);
  EXPECT_EQ(mesh.team(), 1024);
  EXPECT_EQ(mesh.data().team, 2);
}

TEST(Mesh, OfOneNodeIsOneTeam) {
  const Mesh mesh = Mesh::OfOneNode(2, 12);
  EXPECT_EQ(mesh.data().rank, 2);
  EXPECT_EQ(mesh.data().size(), 12);
  EXPECT_EQ(mesh.data().team, 12);
  EXPECT_EQ(mesh.nodes(), 1);
}

TEST(Mesh, RefusesWhatNoCoordinatorAssigns) {
  const struct {
    const char* message;
    std::function<void(v1::Assignment&)> change;
  } kCases[] = {
      {"world_size must be 1 to 16384, got 0", [](v1::Assignment& a) { a.set_world_size(0); }},
      {"world_size must be 1 to 16384, got 16385", [](v1::Assignment& a) { a.set_world_size(16385); }},
      {"rank must be 0 to 3, got 4", [](v1::Assignment& a) { a.set_rank(4); }},
      {"rank must be 0 to 3, got -1", [](v1::Assignment& a) { a.set_rank(-1); }},
      {"team must be 1 to 16384, got 0", [](v1::Assignment& a) { a.set_team(0); }},
      {"team must be 1 to 16384, got -2147483648", [](v1::Assignment& a) { a.set_team(INT32_MIN); }},
      {"the number of members must be 4 to 4, got 3", [](v1::Assignment& a) { a.mutable_members()->RemoveLast(); }},
      {"members[1].rank must be 1 to 1, got 2", [](v1::Assignment& a) { a.mutable_members(1)->set_rank(2); }},
      {"members[0].node must be 0 to 0, got 1", [](v1::Assignment& a) { a.mutable_members(0)->set_node(1); }},
      {"members[2].node must be 0 to 1, got 5", [](v1::Assignment& a) { a.mutable_members(2)->set_node(5); }},
      {"members[3].node must be 1 to 2, got 0", [](v1::Assignment& a) { a.mutable_members(3)->set_node(0); }},
      {"the number of axes must be 2 to 2, got 0", [](v1::Assignment& a) { a.clear_axes(); }},
      {"the number of axes must be 2 to 2, got 3", [](v1::Assignment& a) { a.add_axes()->set_name("pipeline"); }},
      {"axes have pipeline, expected data", [](v1::Assignment& a) { a.mutable_axes(1)->set_name("pipeline"); }},
      {"the degree of axis tensor must be 1 to 4, got 0", [](v1::Assignment& a) { a.mutable_axes(0)->set_degree(0); }},
      {"axes make 12 ranks, expected 4", [](v1::Assignment& a) { a.mutable_axes(0)->set_degree(3); }},
  };
  for (const auto& [message, change] : kCases) {
    v1::Assignment assignment = AssignmentOf(1, {0, 0, 1, 1}, 1, 2);
    ASSERT_TRUE(Mesh::Create(assignment, 1).ok());
    change(assignment);
    const absl::Status status = Mesh::Create(assignment, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace zerofleet::parallel
