// Writing into blocks that are there already; see spare_file.h.
#include "base/spare_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"

namespace zerofleet {
namespace {

constexpr size_t kBlockBytes = 4096;

// Whether a file's blocks, as its file system reports them, have room for `bytes`.
bool HasRoom(const std::string& path, size_t bytes) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 &&
         std::max<int64_t>(info.st_size, int64_t{512} * info.st_blocks) >= static_cast<int64_t>(bytes);
}

// Best effort: a spare matters only on a full disk. A spare that is too small stays until a larger one replaces it.
void KeepSpare(const std::string& path, size_t contents_bytes) {
  const std::string spare = SparePath(path), temporary = absl::StrCat(spare, ".tmp");
  if (HasRoom(spare, contents_bytes)) return;
  const size_t blocks = (2 * contents_bytes + kBlockBytes - 1) / kBlockBytes;
  // Bytes are written and reach the disk, since a hole or a preallocation is no room.
  const std::string room(std::max<size_t>(blocks, 1) * kBlockBytes, ' ');
  if (!WriteFileAtomically(spare, room, temporary).ok()) RemoveOne(temporary).IgnoreError();
}

absl::Status Failed(const std::string& path, const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat(path, ": cannot ", what, ": ", std::strerror(errno)));
}

// Replaces a file's contents without allocating a new block.
absl::Status Overwrite(const std::string& path, std::string_view contents) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return Failed(path, "open");
  absl::Status status;
  while (status.ok() && !contents.empty()) {
    const ssize_t written = write(descriptor, contents.data(), contents.size());
    if (written < 0 && errno != EINTR) status = Failed(path, "write");
    contents.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
  const off_t end = lseek(descriptor, 0, SEEK_CUR);
  if (status.ok() && ftruncate(descriptor, end) != 0) status = Failed(path, "truncate");
  if (status.ok() && fsync(descriptor) != 0) status = Failed(path, "fsync");
  close(descriptor);
  return status;
}

// The spare is renamed while it is written, so that only one of two writers finds it.
absl::Status WriteIntoSpare(const std::string& path, std::string_view contents, const std::string& temporary) {
  ZF_RETURN_IF_ERROR(Rename(SparePath(path), temporary));
  const absl::Status written = Overwrite(temporary, contents);
  if (!written.ok()) {
    RemoveOne(temporary).IgnoreError();
    return written;
  }
  const bool exchanged = renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0;
  // If nothing is at `path`, or the file system knows no exchange, there is no spare now; what was at `path` frees room
  // for one.
  if (!exchanged) ZF_RETURN_IF_ERROR(Rename(temporary, path));
  if (exchanged) Rename(temporary, SparePath(path)).IgnoreError();
  return SyncDirectory(ParentOf(path));
}

}  // namespace

std::string SparePath(const std::string& path) { return absl::StrCat(path, ".spare"); }

absl::Status WriteFileKeepingRoom(const std::string& path, std::string_view contents, std::string temporary) {
  if (temporary.empty()) temporary = absl::StrCat(path, ".tmp");
  absl::Status status = WriteFileAtomically(path, contents, temporary);
  if (IsDiskFull(status)) {
    RemoveOne(temporary).IgnoreError();
    if (WriteIntoSpare(path, contents, temporary).ok()) {
      status = absl::OkStatus();
    } else {
      status = WriteFileAtomically(path, contents, temporary);  // in the room that the spare had
    }
  }
  if (status.ok()) KeepSpare(path, contents.size());
  return status;
}

}  // namespace zerofleet
