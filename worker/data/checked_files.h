// Which files have passed a check before: a small file of keys, so that a second start need not read all data again.
//
// A key is the digest of what was checked (a file's identity and the check). The list is believed only if it is whole
// and is this user's own regular file, writable by nobody else; otherwise it counts as empty. It saves time and decides
// nothing: ids are compared again whenever they are read. Failing to write it is no error.
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
  // With an empty `path` nothing is remembered.
  static CheckedFiles Load(const std::string& path);

  bool Contains(const std::string& key) const { return known_.count(key) > 0; }
  void Add(const std::string& key);  // 32 hexadecimal digits
  // Replaces the file in one step if anything was added; beyond a limit the oldest keys are dropped.
  void Save() const;

 private:
  explicit CheckedFiles(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::vector<std::string> keys_;  // oldest first
  std::set<std::string> known_;    // the same keys
  bool added_ = false;
};

// The keys in a list's text, oldest first; none if the text is not whole.
std::vector<std::string> ParseCheckedFiles(std::string_view text);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_CHECKED_FILES_H_
