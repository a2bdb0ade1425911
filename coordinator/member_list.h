// An ordered list of members, with ways to find one of them without a scan.
//
// A fleet may have thousands of members, each of which sends several messages a second, and may lose them one by one:
// the work per message or per loss must not grow with their number. The work per view or per tick may.
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
  // Takes constant time, except the first time after a change of the list.
  Member& operator[](size_t at) { return *Place(at); }
  const Member& operator[](size_t at) const { return *Place(at); }
  const Member& front() const { return members_.front(); }
  const Member& back() const { return members_.back(); }
  size_t size() const { return members_.size(); }
  bool empty() const { return members_.empty(); }

  // Null if there is none.
  Member* Find(MemberId id);
  // The member whose Hello had this incarnation; the newest, if several had it.
  Member* FindProcess(const std::string& incarnation);

  // Whether all members are in this state. A call begins with the member that was not at the last call, so that the
  // total time grows with the number of state changes, not with calls times the length of the list.
  bool All(MemberState state) const;
  // The number of members without a session.
  int away() const { return away_; }

  void push_back(Member member);
  void pop_back() { Erase(std::prev(members_.end())); }
  Member Take(iterator at);  // removes and returns it
  // Gives `member`, which must be in the list, the id of its new session. The id must not be changed in any other way.
  void Rename(Member& member, MemberId id);
  // Also replaces its Hello.
  void Rename(Member& member, MemberId id, v1::Hello hello);

  // Does nothing if there is no such member.
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
  // Empties the list and returns its members, for example to put them back in another order.
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
  mutable std::vector<Member*> places_;             // by position; empty after a change of the list
  mutable const_iterator unlike_ = members_.end();  // where All() stopped last; no part of the value
};

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_MEMBER_LIST_H_
