// Which files have passed a check before: a small file of keys, so that a second start need not read all data again.
//
// A key is the digest of what was checked (a file's identity and what it was checked for). The list is believed only if
// it is this user's own regular file, writable by nobody else, and whole; otherwise it counts as empty. It saves time
// and decides nothing: ids are compared again whenever they are read. That it cannot be written is no error.
#ifndef ZEROFLEET_WORKER_DATA_CHECKED_FILES_H_
#define ZEROFLEET_WORKER_DATA_CHECKED_FILES_H_

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zerofleet::data {

class CheckedFiles {
 public:
  // An empty `path`: nothing is remembered.
  static CheckedFiles Load(const std::string& path);

  bool Contains(const std::string& key) const { return known_.count(key) > 0; }
  void Add(const std::string& key);  // 32 hexadecimal digits
  // Writes the list anew if anything was added, in one step; the oldest keys are dropped beyond a limit.
  void Save() const;

 private:
  explicit CheckedFiles(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::vector<std::string> keys_;  // oldest first
  std::set<std::string> known_;    // the same
  bool added_ = false;
};

// The keys in a list's text, oldest first; none if it is not whole.
std::vector<std::string> ParseCheckedFiles(std::string_view text);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_CHECKED_FILES_H_
