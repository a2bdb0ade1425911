// Files as the rest of the tree sees them: memory-mapped reading, durable writing, directories.
//
// Every error names the path. Writers never overwrite: an output file must not exist.
#ifndef ZEROFLEET_BASE_FILE_H_
#define ZEROFLEET_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet {

// A whole file mapped read-only; an empty file has an empty span.
class MappedFile {
 public:
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}
  std::string path_;
  std::span<const std::byte> bytes_;
};

// A new file of a known length, written in any order through memory; the system writes pages back as it needs memory.
// Disk space is reserved first, so that no write can fail for lack of it. Durable once Sync has returned OK.
class MappedOutput {
 public:
  // `bytes` > 0; they begin as zeros. AlreadyExists if something is at `path`; after any other error, nothing is there.
  static absl::StatusOr<std::unique_ptr<MappedOutput>> Create(const std::string& path, int64_t bytes);
  ~MappedOutput();
  MappedOutput(const MappedOutput&) = delete;
  MappedOutput& operator=(const MappedOutput&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  absl::Status Sync();

 private:
  MappedOutput(std::string path, int descriptor, std::span<std::byte> bytes)
      : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes) {}
  std::string path_;
  int descriptor_;
  std::span<std::byte> bytes_;
};

// Appends to a file; the bytes are durable once Sync has returned OK. After a failed Write or
// Sync the file must be discarded: fsync is not retried, since the kernel may have dropped the pages.
class DurableFile {
 public:
  static absl::StatusOr<std::unique_ptr<DurableFile>> Create(const std::string& path);
  // Goes on behind the first `bytes` bytes of a file, and cuts off the others. NotFound if it is no regular file.
  static absl::StatusOr<std::unique_ptr<DurableFile>> CutOff(const std::string& path, int64_t bytes);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  absl::Status Write(std::span<const std::byte> bytes);
  absl::Status Sync();

 private:
  DurableFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_;
};

// Takes room on the disk for the first `bytes` bytes of a file that is open, again if a signal interrupts it. Returns 0
// or an error number (posix_fallocate).
int TakeRoom(int descriptor, int64_t bytes);

// Reads exactly `into.size()` bytes at `offset`; DataLoss if the file ends before that.
absl::Status ReadAt(const std::string& path, int64_t offset, std::span<std::byte> into);

// The whole file as a string; ResourceExhausted if larger than `limit_bytes`.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t limit_bytes);

// Replaces `path` atomically: writes a temporary file next to it (`temporary`; "PATH.tmp" if empty), fsyncs it, renames
// it and fsyncs the directory.
absl::Status WriteFileAtomically(const std::string& path, std::string_view contents, std::string temporary = "");

// The file to replace when a whole result is written to `path`, which a user named: `path` itself if nothing is there,
// or the regular file that it is or links to. InvalidArgument for what must not be replaced or cannot be written: a
// device, a pipe, a directory, a link to nothing, a file without permission to write.
absl::StatusOr<std::string> ReplaceableFile(const std::string& path);
// Atomically replaces the file that ReplaceableFile returns for `path`, by way of a temporary name that nothing else
// has.
absl::Status WriteResultFile(const std::string& path, std::string_view contents);

// Whether an error that a function here returned means a full disk or a used-up quota.
bool IsDiskFull(const absl::Status& status);

absl::Status SyncDirectory(const std::string& path);
// Renames within a file system; durable once the parent directories are synced. A file replaces whatever file is at
// `to`; a directory replaces only an empty directory. If the call fails although the rename was carried out (what was
// at `from` is at `to`, as over NFS when the answer is lost), the result is OK.
absl::Status Rename(const std::string& from, const std::string& to);
// Renames a directory as Rename does, but replaces nothing: AlreadyExists if there is anything at `to`. Where the file
// system does not know RENAME_NOREPLACE (NFS, FUSE), an empty directory that is created at `to` at the same moment may
// be replaced; nothing else can be.
absl::Status RenameDirectory(const std::string& from, const std::string& to);
// Renames a file without replacing anything, as RenameDirectory. Without RENAME_NOREPLACE, a file that is created at
// `to` at the same moment may be replaced.
absl::Status RenameFile(const std::string& from, const std::string& to);
// As mkdir: the parent must exist. AlreadyExists if anything is at `path`.
absl::Status CreateDirectory(const std::string& path);
absl::Status CreateDirectories(const std::string& path);
// Removes a file or an empty directory; NotFound if there is nothing.
absl::Status RemoveOne(const std::string& path);
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);  // names, sorted
absl::Status RemoveTree(const std::string& path);
// What is at a path. A symbolic link is not followed.
enum class PathKind { kNothing, kFile, kDirectory, kSymlink, kOther };
// kNothing if the system says that the path is absent (ENOENT, ENOTDIR); an error, naming the path, if it cannot say
// (EIO, ESTALE).
absl::StatusOr<PathKind> KindOf(const std::string& path);
// Whether there is anything at `path`, links followed; errors as KindOf.
absl::StatusOr<bool> IsThere(const std::string& path);
// These three return false also for what cannot be examined. Do not use them to decide whether to remove, replace or
// choose something; KindOf and IsThere are for that.
bool FileExists(const std::string& path);
bool IsDirectory(const std::string& path);
bool IsSymlink(const std::string& path);
absl::StatusOr<int64_t> FileBytes(const std::string& path);

// The identity of what is at a path; it survives renames. A symbolic link is not followed.
struct FileId {
  uint64_t device = 0, inode = 0;
  bool operator==(const FileId&) const = default;
};
absl::StatusOr<FileId> IdOf(const std::string& path);

// Asks the system to drop the file from the page cache, so that the next read comes from storage. Pages that are not
// written back yet stay, and so does everything on a file system in memory.
void DropFromCache(const std::string& path);

// "a" and "b/c" -> "a/b/c".
std::string JoinPath(std::string_view directory, std::string_view name);
// "b/c" and "b/c/" -> "b"; "c" -> ".".
std::string ParentOf(const std::string& path);

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_FILE_H_
