// Members in an order, and the ways to find one of them without looking at all.
//
// A fleet may have thousands of members, each of which says something several times a second, and may lose them one by
// one: what happens with every message or loss must not grow with their number. What happens once a view or a tick may.
#ifndef ZEROFLEET_COORDINATOR_MEMBER_LIST_H_
#define ZEROFLEET_COORDINATOR_MEMBER_LIST_H_

#include <cstddef>
#include <iterator>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/member.h"

namespace zerofleet::coordinator {

class MemberList {
 public:
  using iterator = std::list<Member>::iterator;
  using const_iterator = std::list<Member>::const_iterator;

  MemberList() = default;
  MemberList(const MemberList& other) : members_(other.members_) { Index(); }
  MemberList& operator=(const MemberList& other);

  iterator begin() { return members_.begin(); }
  iterator end() { return members_.end(); }
  const_iterator begin() const { return members_.begin(); }
  const_iterator end() const { return members_.end(); }
  // In constant time, but for the first time after a change of the list.
  Member& operator[](size_t at) { return *Place(at); }
  const Member& operator[](size_t at) const { return *Place(at); }
  const Member& front() const { return members_.front(); }
  const Member& back() const { return members_.back(); }
  size_t size() const { return members_.size(); }
  bool empty() const { return members_.empty(); }

  // Null if there is none.
  Member* Find(MemberId id);
  // The member whose process said this of itself in its Hello; the newest, if several did.
  Member* FindProcess(const std::string& incarnation);

  // Whether all are in this state. Takes constant time per change of a member's state, not the length of the list each
  // time it is asked: it begins with the member that was not, when it was last asked.
  bool All(MemberState state) const;
  // Members without a session.
  int away() const { return away_; }

  void push_back(Member member);
  void pop_back() { Erase(std::prev(members_.end())); }
  Member Take(iterator at);  // out of the list
  // Whose session `member`, one of the list, speaks in from now on. Its id must not change otherwise.
  void Rename(Member& member, MemberId id);
  // As above, and who it says it is.
  void Rename(Member& member, MemberId id, v1::Hello hello);

  // Without effect if there is none.
  void Erase(MemberId id);
  template <typename Predicate>
  void EraseIf(Predicate predicate) {
    for (iterator at = members_.begin(); at != members_.end();) {
      const iterator one = at++;
      if (predicate(std::as_const(*one))) Erase(one);
    }
  }
  template <typename Less>
  void StableSort(Less less) {
    members_.sort(less);
    places_.clear();
  }
  // Takes the members out, to be put back in another order.
  std::vector<Member> TakeAll();

 private:
  void Index();
  void Note(iterator at);
  void Forget(iterator at);
  void Erase(iterator at);
  Member* Place(size_t at) const;

  std::list<Member> members_;
  std::unordered_map<MemberId, iterator> by_id_;
  std::unordered_map<std::string, MemberId> by_incarnation_;
  int away_ = 0;
  mutable std::vector<Member*> places_;             // by place; empty where they have changed since
  mutable const_iterator unlike_ = members_.end();  // where All() stopped last; says nothing of the list
};

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_MEMBER_LIST_H_
