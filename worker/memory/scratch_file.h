// A file for what memory has no room for. It lives as long as the process that made it, and is that process's alone.
//
// Its name is removed as soon as it is open, so that no other process finds it and nothing is left when this one ends,
// however it ends. Its space is allocated when it is made, so a full disk is reported then, not in the middle of a run.
// It is read and written past the page cache (O_DIRECT), which would keep in memory what was moved out of it; file
// systems that cannot do that (tmpfs) are used through the cache.
#ifndef ZEROFLEET_WORKER_MEMORY_SCRATCH_FILE_H_
#define ZEROFLEET_WORKER_MEMORY_SCRATCH_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet::memory {

// Whether an error comes from a scratch file. The file is this process's own, so a process on another node may not have
// the error. OfScratchFile marks a status as such an error.
bool IsOfScratchFile(const absl::Status& status);
absl::Status OfScratchFile(absl::Status status);

class ScratchFile {
 public:
  // Offsets, lengths and memory addresses must be multiples of it.
  static constexpr int64_t kBlock = 4096;

  // Creates a file of `bytes` bytes in `directory`, which is made if it is missing; `name` is the beginning of its name
  // in messages. ResourceExhausted, with path and size, where it does not fit; IsOfScratchFile holds for every error.
  static absl::StatusOr<std::unique_ptr<ScratchFile>> Create(const std::string& directory, const std::string& name,
                                                             int64_t bytes);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // Thread-safe. Errors name path, offset and cause; IsOfScratchFile holds for them.
  absl::Status Write(int64_t offset, std::span<const std::byte> from);
  absl::Status Read(int64_t offset, std::span<std::byte> into);

  const std::string& path() const { return path_; }  // the path before its name was removed
  bool direct() const { return direct_; }            // whether it is read and written past the page cache

 private:
  ScratchFile(std::string path, int descriptor, bool direct)
      : path_(std::move(path)), descriptor_(descriptor), direct_(direct) {}
  absl::Status Failed(const char* operation, int64_t offset, int error) const;

  const std::string path_;
  const int descriptor_;
  const bool direct_;
};

}  // namespace zerofleet::memory

#endif  // ZEROFLEET_WORKER_MEMORY_SCRATCH_FILE_H_
