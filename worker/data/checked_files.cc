// The file has a line "zerofleet-checked-files 1", a line for each key, and a line with the digest of the lines before
// it; see checked_files.h.
#include "worker/data/checked_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/digest.h"

namespace zerofleet::data {
namespace {

constexpr std::string_view kFirstLine = "zerofleet-checked-files 1\n";
constexpr size_t kKeyBytes = 32, kMostKeys = 65536;
constexpr size_t kMostBytes = kFirstLine.size() + (kMostKeys + 1) * (kKeyBytes + 1);

bool IsKey(std::string_view text) {
  return text.size() == kKeyBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The contents of `path` if the file can be believed, else nothing.
std::string ReadOwn(const std::string& path) {
  std::string text;
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return text;
  struct stat info;
  if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
      (info.st_mode & (S_IWGRP | S_IWOTH)) == 0 && info.st_size <= static_cast<int64_t>(kMostBytes)) {
    text.resize(static_cast<size_t>(info.st_size));
    const ssize_t got = read(descriptor, text.data(), text.size());
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
  }
  close(descriptor);
  return text;
}

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

std::vector<std::string> ParseCheckedFiles(std::string_view text) {
  std::vector<std::string> lines;
  if (text.substr(0, kFirstLine.size()) != kFirstLine) return lines;
  const size_t rest = text.size() - kFirstLine.size();
  if (rest == 0 || rest % (kKeyBytes + 1) != 0) return lines;
  for (size_t at = kFirstLine.size(); at < text.size(); at += kKeyBytes + 1) {
    if (!IsKey(text.substr(at, kKeyBytes)) || text[at + kKeyBytes] != '\n') return {};
    lines.emplace_back(text.substr(at, kKeyBytes));
  }
  const std::string_view before = text.substr(0, text.size() - kKeyBytes - 1);
  if (lines.back() != Digest128(before)) return {};
  lines.pop_back();
  return lines;
}

CheckedFiles CheckedFiles::Load(const std::string& path) {
  CheckedFiles files(path);
  if (!path.empty()) files.keys_ = ParseCheckedFiles(ReadOwn(path));
  files.known_.insert(files.keys_.begin(), files.keys_.end());
  return files;
}

void CheckedFiles::Add(const std::string& key) {
  if (!known_.insert(key).second) return;
  keys_.push_back(key);
  added_ = true;
}

void CheckedFiles::Save() const {
  if (path_.empty() || !added_) return;
  std::string text(kFirstLine);
  for (size_t i = keys_.size() - std::min(keys_.size(), kMostKeys); i < keys_.size(); ++i) {
    absl::StrAppend(&text, keys_[i], "\n");
  }
  absl::StrAppend(&text, Digest128(text), "\n");
  // Other threads, and other hosts with processes of this number, may write the same list in the same folder.
  std::string temporary = absl::StrCat(path_, ".tmp-XXXXXX");
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) return;
  const bool fresh = fchmod(descriptor, 0644) == 0 && WriteAll(descriptor, text);
  close(descriptor);
  if (!fresh || rename(temporary.c_str(), path_.c_str()) != 0) unlink(temporary.c_str());
}

}  // namespace zerofleet::data
