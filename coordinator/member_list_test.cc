// Lookups by session and by process, through all that changes a list.
#include "coordinator/member_list.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::coordinator {
namespace {

Member MemberOf(MemberId id, int rank, const std::string& incarnation = "") {
  Member member;
  member.id = id;
  member.rank = rank;
  member.hello.set_incarnation(incarnation);
  return member;
}

int RankOf(MemberList& list, MemberId id) {
  const Member* member = list.Find(id);
  return member == nullptr ? -1 : member->rank;
}

TEST(MemberList, FindsThroughEveryChange) {
  MemberList list;
  for (int i = 0; i < 6; ++i) list.push_back(MemberOf(100 + i, 5 - i));
  list.StableSort([](const Member& a, const Member& b) { return a.rank < b.rank; });
  EXPECT_EQ(list.front().id, 105u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(RankOf(list, 100 + i), 5 - i);
  list.EraseIf([](const Member& member) { return member.rank == 0 || member.rank == 3; });
  EXPECT_EQ(RankOf(list, 105), -1);
  EXPECT_EQ(RankOf(list, 102), -1);
  EXPECT_EQ(RankOf(list, 100), 5);
  EXPECT_EQ(list.Take(list.begin()).id, 104u);
  EXPECT_EQ(RankOf(list, 104), -1);
  EXPECT_EQ(RankOf(list, 103), 2);
  list.pop_back();
  EXPECT_EQ(RankOf(list, 100), -1);
  EXPECT_EQ(list.TakeAll().size(), 2u);
  EXPECT_EQ(RankOf(list, 103), -1);
  EXPECT_TRUE(list.empty());
}

TEST(MemberList, FollowsAProcessFromSessionToSession) {
  MemberList list;
  list.push_back(MemberOf(1, 0, "one"));
  list.push_back(MemberOf(kAwayIds + 1, 1));
  EXPECT_EQ(list.away(), 1);
  EXPECT_EQ(list.FindProcess("one")->id, 1u);
  EXPECT_EQ(list.FindProcess(""), nullptr);
  EXPECT_EQ(list.FindProcess("two"), nullptr);
  list.Rename(*list.Find(kAwayIds + 1), 7, MemberOf(7, 1, "two").hello);  // the rank is back
  EXPECT_EQ(list.away(), 0);
  EXPECT_EQ(list.FindProcess("two"), list.Find(7));
  EXPECT_EQ(list.Find(kAwayIds + 1), nullptr);
  list.Rename(*list.Find(7), 9);
  EXPECT_EQ(list.FindProcess("two")->id, 9u);
  list.Rename(*list.Find(9), kAwayIds + 1);  // and away again
  EXPECT_EQ(list.away(), 1);
  EXPECT_EQ(list.FindProcess("two"), nullptr);
  EXPECT_EQ(RankOf(list, 1), 0);
}

TEST(MemberList, ACopyHasItsOwnIndex) {
  MemberList list;
  list.push_back(MemberOf(1, 0));
  MemberList copy = list;
  list.EraseIf([](const Member&) { return true; });
  EXPECT_EQ(RankOf(copy, 1), 0);
}

TEST(MemberList, AllAreInOneState) {
  MemberList list;
  EXPECT_TRUE(list.All(MemberState::kReady));  // the list is empty
  for (int i = 0; i < 5; ++i) list.push_back(MemberOf(1 + i, i));
  for (int i : {3, 0, 4, 1}) {
    list[i].state = MemberState::kReady;
    EXPECT_FALSE(list.All(MemberState::kReady));
  }
  list[2].state = MemberState::kReady;
  EXPECT_TRUE(list.All(MemberState::kReady));
  EXPECT_TRUE(list.All(MemberState::kReady));
  EXPECT_FALSE(list.All(MemberState::kTraining));
  list[0].state = MemberState::kLost;  // behind the place where All() stopped
  EXPECT_FALSE(list.All(MemberState::kReady));
  list.EraseIf([](const Member& member) { return member.rank == 0; });
  EXPECT_TRUE(list.All(MemberState::kReady));
}

}  // namespace
}  // namespace zerofleet::coordinator
