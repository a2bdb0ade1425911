// Keeping the indices in step with the list; see member_list.h.
#include "coordinator/member_list.h"

#include <iterator>

namespace zerofleet::coordinator {

MemberList& MemberList::operator=(const MemberList& other) {
  if (this == &other) return *this;
  members_ = other.members_;
  Index();
  return *this;
}

Member* MemberList::Find(MemberId id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &*found->second;
}

Member* MemberList::FindProcess(const std::string& incarnation) {
  const auto found = by_incarnation_.find(incarnation);
  return found == by_incarnation_.end() ? nullptr : Find(found->second);
}

bool MemberList::All(MemberState state) const {
  for (size_t seen = 0; seen < members_.size(); ++seen) {
    if (unlike_ == members_.end()) unlike_ = members_.begin();
    if (unlike_->state != state) return false;
    ++unlike_;
  }
  return true;
}

void MemberList::push_back(Member member) {
  members_.push_back(std::move(member));
  Note(std::prev(members_.end()));
}

Member MemberList::Take(iterator at) {
  Forget(at);
  Member member = std::move(*at);
  members_.erase(at);
  return member;
}

void MemberList::Rename(Member& member, MemberId id) { Rename(member, id, std::move(member.hello)); }

void MemberList::Rename(Member& member, MemberId id, v1::Hello hello) {
  const auto entry = by_id_.find(member.id);
  const iterator at = entry->second;
  by_id_.erase(entry);
  if (member.id >= kAwayIds) --away_;
  member.id = id;
  member.hello = std::move(hello);
  Note(at);
}

void MemberList::Erase(MemberId id) {
  if (const auto found = by_id_.find(id); found != by_id_.end()) Erase(found->second);
}

void MemberList::Erase(iterator at) {
  Forget(at);
  members_.erase(at);
}

void MemberList::Forget(iterator at) {
  if (at->id >= kAwayIds) --away_;
  if (unlike_ == at) ++unlike_;
  const auto process = by_incarnation_.find(at->hello.incarnation());
  if (process != by_incarnation_.end() && process->second == at->id) by_incarnation_.erase(process);
  by_id_.erase(at->id);
  places_.clear();
}

std::vector<Member> MemberList::TakeAll() {
  std::vector<Member> members(std::make_move_iterator(members_.begin()), std::make_move_iterator(members_.end()));
  members_.clear();
  Index();
  return members;
}

void MemberList::Index() {
  by_id_.clear();
  by_incarnation_.clear();
  places_.clear();
  away_ = 0;
  unlike_ = members_.end();
  for (iterator at = members_.begin(); at != members_.end(); ++at) Note(at);
}

void MemberList::Note(iterator at) {
  by_id_[at->id] = at;
  places_.clear();
  if (at->id >= kAwayIds) {
    ++away_;
  } else if (!at->hello.incarnation().empty()) {
    by_incarnation_[at->hello.incarnation()] = at->id;
  }
}

Member* MemberList::Place(size_t at) const {
  if (places_.empty()) {
    for (const Member& member : members_) places_.push_back(const_cast<Member*>(&member));
  }
  return places_[at];
}

}  // namespace zerofleet::coordinator
