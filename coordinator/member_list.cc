// Keeping the index beside the list; see member_list.h.
#include "coordinator/member_list.h"

namespace zerofleet::coordinator {

Member* MemberList::Find(MemberId id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &members_[found->second];
}

Member* MemberList::FindProcess(const std::string& incarnation) {
  const auto found = by_incarnation_.find(incarnation);
  return found == by_incarnation_.end() ? nullptr : Find(found->second);
}

bool MemberList::All(MemberState state) const {
  for (size_t seen = 0; seen < members_.size(); ++seen) {
    if (unlike_ >= members_.size()) unlike_ = 0;
    if (members_[unlike_].state != state) return false;
    ++unlike_;
  }
  return true;
}

void MemberList::push_back(Member member) {
  members_.push_back(std::move(member));
  Note(members_.size() - 1);
}

void MemberList::pop_back() {
  members_.pop_back();
  Index();
}

Member MemberList::Take(iterator at) {
  Member member = std::move(*at);
  members_.erase(at);
  Index();
  return member;
}

void MemberList::Rename(Member& member, MemberId id) { Rename(member, id, std::move(member.hello)); }

void MemberList::Rename(Member& member, MemberId id, v1::Hello hello) {
  const auto at = static_cast<size_t>(&member - members_.data());
  by_id_.erase(member.id);
  if (member.id >= kAwayIds) --away_;
  member.id = id;
  member.hello = std::move(hello);
  Note(at);
}

std::vector<Member> MemberList::TakeAll() {
  std::vector<Member> members = std::exchange(members_, {});
  Index();
  return members;
}

void MemberList::Index() {
  by_id_.clear();
  by_incarnation_.clear();
  away_ = 0;
  for (size_t at = 0; at < members_.size(); ++at) Note(at);
}

void MemberList::Note(size_t at) {
  const Member& member = members_[at];
  by_id_[member.id] = at;
  if (member.id >= kAwayIds) {
    ++away_;
  } else if (!member.hello.incarnation().empty()) {
    by_incarnation_[member.hello.incarnation()] = member.id;
  }
}

}  // namespace zerofleet::coordinator
