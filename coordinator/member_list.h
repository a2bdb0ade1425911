// Members in an order, and the ways to find one of them without looking at all.
//
// A fleet may have thousands of members, each of which says something several times a second: what happens with every
// message must not grow with their number. What happens once a view, a loss or a tick may.
#ifndef ZEROFLEET_COORDINATOR_MEMBER_LIST_H_
#define ZEROFLEET_COORDINATOR_MEMBER_LIST_H_

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/member.h"

namespace zerofleet::coordinator {

class MemberList {
 public:
  using iterator = std::vector<Member>::iterator;
  using const_iterator = std::vector<Member>::const_iterator;

  iterator begin() { return members_.begin(); }
  iterator end() { return members_.end(); }
  const_iterator begin() const { return members_.begin(); }
  const_iterator end() const { return members_.end(); }
  Member& operator[](size_t at) { return members_[at]; }
  const Member& operator[](size_t at) const { return members_[at]; }
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
  void pop_back();
  Member Take(iterator at);  // out of the list
  // Whose session `member`, one of the list, speaks in from now on. Its id must not change otherwise.
  void Rename(Member& member, MemberId id);
  // As above, and who it says it is.
  void Rename(Member& member, MemberId id, v1::Hello hello);

  template <typename Predicate>
  void EraseIf(Predicate predicate) {
    if (std::erase_if(members_, predicate) > 0) Index();
  }
  // Each member is moved once at most, however many there are: they are large.
  template <typename Less>
  void StableSort(Less less) {
    if (std::is_sorted(members_.begin(), members_.end(), less)) return;
    std::vector<size_t> order(members_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return less(members_[a], members_[b]); });
    std::vector<Member> sorted;
    sorted.reserve(members_.size());
    for (const size_t from : order) sorted.push_back(std::move(members_[from]));
    members_ = std::move(sorted);
    Index();
  }
  // Takes the members out, to be put back in another order.
  std::vector<Member> TakeAll();

 private:
  void Index();
  void Note(size_t at);

  std::vector<Member> members_;
  std::unordered_map<MemberId, size_t> by_id_;                // place in the list
  std::unordered_map<std::string, MemberId> by_incarnation_;  // may name members that have left
  int away_ = 0;
  mutable size_t unlike_ = 0;  // where All() stopped last; says nothing of the list
};

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_MEMBER_LIST_H_
