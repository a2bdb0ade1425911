// One data file, read with pread and never mapped, so that a file cut short during a run is an error that names it, not
// a signal.
//
// A file must not change while a run reads it. Every read compares its size and time with those at opening; a new time
// over the same bytes, as after `touch`, is accepted.
#ifndef ZEROFLEET_WORKER_DATA_TOKEN_FILE_H_
#define ZEROFLEET_WORKER_DATA_TOKEN_FILE_H_

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet::data {

// The files that a directory stands for where files are named: its regular files, links followed, sorted, without names
// that begin with a dot. NotFound; DataLoss for an entry that cannot be examined, such as a dangling link.
absl::StatusOr<std::vector<std::string>> DataFilesIn(const std::string& directory);

// Descriptors are scarce (often 1024 per process): of a large directory's files, those beyond this number are opened
// for each read.
inline constexpr int64_t kMostKeptOpen = 256;

class TokenFile {
 public:
  // With `keep_open` the descriptor is kept; without it every read opens the file again and checks that it is the same
  // file. NotFound for a missing file and for one that is not a regular file.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(const std::string& path, bool keep_open);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t bytes() const { return info_.st_size; }
  const std::string& head() const { return head_; }  // the first kFormatHeadBytes bytes

  // The digest of 16 blocks of 4 KiB, evenly spaced and including the first and the last; of the whole file if it has
  // fewer blocks.
  const std::string& digest() const { return digest_; }
  // The digest that the file would have if it ended after `bytes` bytes.
  absl::StatusOr<std::string> DigestOfBeginning(int64_t bytes) const;

  // Device, inode, size, times and a digest of parts of the contents: the key under which results about this file are
  // cached.
  std::string Identity() const;

  // Size, time and digest; equal on every machine that sees the same file.
  std::string Contents() const;

  // Fills `into` from `offset`. DataLoss, naming the file, if it has changed or cannot be read. Thread-safe.
  absl::Status Read(int64_t offset, std::span<std::byte> into) const;

  // The offset of the first byte at or after `offset` that is not in a hole, or bytes(). Holes read as zeros.
  int64_t SkipHole(int64_t offset) const;

 private:
  TokenFile(std::string path, struct stat info) : path_(std::move(path)), info_(info) {}
  absl::Status CheckUnchanged(int descriptor) const;

  const std::string path_;
  const struct stat info_;
  int descriptor_ = -1;  // -1: the file is opened for each read
  std::string head_, digest_;
  mutable std::atomic<int64_t> modified_ns_{0};  // the latest time at which the contents were seen unchanged
};

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_TOKEN_FILE_H_
