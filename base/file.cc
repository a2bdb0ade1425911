// POSIX files behind file.h.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/kill_point.h"
#include "base/status.h"

namespace zerofleet {
namespace {

constexpr char kFull[] = "zerofleet/disk-full";  // a payload

absl::Status ErrnoStatus(const std::string& path, const char* operation, int error) {
  std::string message = absl::StrCat(path, ": cannot ", operation, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EEXIST) return absl::AlreadyExistsError(message);
  absl::Status status = absl::ResourceExhaustedError(message);
  if (error == ENOSPC || error == EDQUOT) status.SetPayload(kFull, {});
  return status;
}

bool IsAbsence(int error) { return error == ENOENT || error == ENOTDIR; }

// Closes a descriptor when the scope ends.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

// Without O_NONBLOCK, which regular files do not heed, opening a pipe would wait for somebody to write to it.
constexpr int kForReading = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

absl::Status FilesystemStatus(const std::string& path, const char* operation, const std::error_code& error) {
  return ErrnoStatus(path, operation, error.value());
}

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  Descriptor descriptor(open(path.c_str(), kForReading));
  if (descriptor.get() < 0) return ErrnoStatus(path, "open", errno);
  struct stat info;
  if (fstat(descriptor.get(), &info) != 0) return ErrnoStatus(path, "stat", errno);
  if (!S_ISREG(info.st_mode)) return absl::NotFoundError(absl::StrCat(path, ": not a regular file"));
  size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return std::unique_ptr<MappedFile>(new MappedFile(path, {}));
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(path, "map", errno);
  return std::unique_ptr<MappedFile>(new MappedFile(path, {static_cast<const std::byte*>(data), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

int TakeRoom(int descriptor, int64_t bytes) {
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(descriptor, 0, bytes);
  return error;
}

absl::StatusOr<std::unique_ptr<MappedOutput>> MappedOutput::Create(const std::string& path, int64_t bytes) {
  Descriptor descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (descriptor.get() < 0) return ErrnoStatus(path, "create", errno);
  const auto size = static_cast<size_t>(bytes);
  int error = TakeRoom(descriptor.get(), bytes);
  void* data = MAP_FAILED;
  if (error == 0) {
    data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    if (data == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    unlink(path.c_str());
    return ErrnoStatus(path, "make room for", error);
  }
  return std::unique_ptr<MappedOutput>(
      new MappedOutput(path, descriptor.release(), {static_cast<std::byte*>(data), size}));
}

MappedOutput::~MappedOutput() {
  munmap(bytes_.data(), bytes_.size());
  close(descriptor_);
}

absl::Status MappedOutput::Sync() {
  if (msync(bytes_.data(), bytes_.size(), MS_SYNC) != 0) return ErrnoStatus(path_, "write", errno);
  if (fsync(descriptor_) != 0) return ErrnoStatus(path_, "fsync", errno);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DurableFile>> DurableFile::Create(const std::string& path) {
  int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) return ErrnoStatus(path, "create", errno);
  return std::unique_ptr<DurableFile>(new DurableFile(path, descriptor));
}

absl::StatusOr<std::unique_ptr<DurableFile>> DurableFile::CutOff(const std::string& path, int64_t bytes) {
  ZF_ASSIGN_OR_RETURN(const PathKind kind, KindOf(path));
  if (kind != PathKind::kFile) return absl::NotFoundError(absl::StrCat(path, ": not a regular file"));
  const int descriptor = open(path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return ErrnoStatus(path, "open", errno);
  std::unique_ptr<DurableFile> file(new DurableFile(path, descriptor));
  if (ftruncate(descriptor, bytes) != 0) return ErrnoStatus(path, "cut off", errno);
  return file;
}

DurableFile::~DurableFile() { close(descriptor_); }

absl::Status DurableFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(descriptor_, bytes.data(), std::min(bytes.size(), size_t{1} << 30));
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(path_, "write", errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status DurableFile::Sync() {
  if (fsync(descriptor_) != 0) return ErrnoStatus(path_, "fsync", errno);
  return absl::OkStatus();
}

absl::Status ReadAt(const std::string& path, int64_t offset, std::span<std::byte> into) {
  Descriptor descriptor(open(path.c_str(), kForReading));
  if (descriptor.get() < 0) return ErrnoStatus(path, "open", errno);
  while (!into.empty()) {
    ssize_t got = pread(descriptor.get(), into.data(), std::min(into.size(), size_t{1} << 30), offset);
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(path, "read", errno);
    }
    if (got == 0)
      return absl::DataLossError(absl::StrCat(path, ": ends at byte ", offset, ", ", into.size(), " bytes too early"));
    into = into.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t limit_bytes) {
  ZF_ASSIGN_OR_RETURN(int64_t size, FileBytes(path));
  if (size > limit_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": ", size, " bytes, at most ", limit_bytes, " expected"));
  }
  std::string contents(static_cast<size_t>(size), '\0');
  ZF_RETURN_IF_ERROR(ReadAt(path, 0, std::as_writable_bytes(std::span(contents))));
  return contents;
}

bool IsDiskFull(const absl::Status& status) { return status.GetPayload(kFull).has_value(); }

absl::Status WriteFileAtomically(const std::string& path, std::string_view contents, std::string temporary) {
  if (temporary.empty()) temporary = absl::StrCat(path, ".tmp");
  if (unlink(temporary.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(temporary, "remove", errno);
  {
    ZF_FILE_KILL_POINT("file/before-create", path);
    ZF_ASSIGN_OR_RETURN(std::unique_ptr<DurableFile> file, DurableFile::Create(temporary));
    ZF_FILE_KILL_POINT("file/created", path);
    ZF_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(contents))));
    ZF_FILE_KILL_POINT("file/before-fsync", path);
    ZF_RETURN_IF_ERROR(file->Sync());
  }
  ZF_FILE_KILL_POINT("file/before-rename", path);
  ZF_RETURN_IF_ERROR(Rename(temporary, path));
  ZF_FILE_KILL_POINT("file/renamed", path);
  ZF_RETURN_IF_ERROR(SyncDirectory(ParentOf(path)));
  ZF_FILE_KILL_POINT("file/rename-synced", path);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReplaceableFile(const std::string& path) {
  const auto refused = [&path](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("\"", absl::CHexEscape(path), "\" ", why));
  };
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return refused(absl::StrCat("cannot be written: ", std::strerror(errno)));
    if (IsSymlink(path)) return refused("is a link to nothing");
    if (path.empty() || path.back() == '/' || !IsDirectory(ParentOf(path))) return refused("is in no directory");
    return path;
  }
  if (!S_ISREG(info.st_mode)) return refused("is not a regular file, and would be replaced; name a file or a new one");
  if (access(path.c_str(), W_OK) != 0) return refused(absl::StrCat("cannot be written: ", std::strerror(errno)));
  std::error_code error;
  const std::string resolved = std::filesystem::canonical(path, error).string();
  if (error) return refused(absl::StrCat("cannot be written: ", error.message()));
  return resolved;
}

absl::Status WriteResultFile(const std::string& path, std::string_view contents) {
  ZF_ASSIGN_OR_RETURN(const std::string file, ReplaceableFile(path));
  std::random_device random;
  const std::string temporary =
      JoinPath(ParentOf(file), absl::StrFormat(".zerofleet.%08x%08x.tmp", random(), random()));
  const absl::Status status = WriteFileAtomically(file, contents, temporary);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

absl::StatusOr<FileId> IdOf(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(path, "stat", errno);
  return FileId{info.st_dev, info.st_ino};
}

void DropFromCache(const std::string& path) {
  const Descriptor descriptor(open(path.c_str(), kForReading));
  if (descriptor.get() >= 0) posix_fadvise(descriptor.get(), 0, 0, POSIX_FADV_DONTNEED);
}

namespace {

// Whether `moved` is at `to` and no longer at `from`.
bool IsRenamed(const std::string& from, const std::string& to, const absl::StatusOr<FileId>& moved) {
  if (!moved.ok()) return false;
  // Opening a directory makes NFS ask the server, and not answer from its cache of names.
  for (const std::string& path : {from, to}) {
    const Descriptor parent(open(ParentOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  const absl::StatusOr<FileId> there = IdOf(to);
  return there.ok() && *there == *moved && absl::IsNotFound(IdOf(from).status());
}

int RenameUnlessTaken(const char* from, const char* to) {
  const int renamed = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
  if (renamed == 0 || (errno != EINVAL && errno != ENOSYS)) return renamed;
  struct stat there;
  const bool taken = lstat(to, &there) == 0;
  if (!taken && rename(from, to) == 0) return 0;
  if (taken || errno == ENOTEMPTY) errno = EEXIST;
  return -1;
}

template <typename Call>
absl::Status RenameBy(Call call, const std::string& from, const std::string& to) {
  const absl::StatusOr<FileId> moved = IdOf(from);
  if (call(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  if (IsRenamed(from, to, moved)) return absl::OkStatus();
  return ErrnoStatus(from, absl::StrCat("rename to ", to).c_str(), error);
}

}  // namespace

absl::Status Rename(const std::string& from, const std::string& to) { return RenameBy(rename, from, to); }

absl::Status RenameDirectory(const std::string& from, const std::string& to) {
  return RenameBy(RenameUnlessTaken, from, to);
}

absl::Status RenameFile(const std::string& from, const std::string& to) {
  return RenameBy(RenameUnlessTaken, from, to);
}

absl::Status CreateDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) return absl::OkStatus();
  return ErrnoStatus(path, "create the directory", errno);
}

absl::Status RemoveOne(const std::string& path) {
  if (remove(path.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(path, "remove", errno);
}

absl::Status SyncDirectory(const std::string& path) {
  Descriptor descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) return ErrnoStatus(path, "open", errno);
  if (fsync(descriptor.get()) != 0) return ErrnoStatus(path, "fsync", errno);
  return absl::OkStatus();
}

absl::Status CreateDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return FilesystemStatus(path, "create the directory", error);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entries(path, error);
  if (error) return FilesystemStatus(path, "list", error);
  for (; entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    names.push_back(entries->path().filename());
    if (error) break;
  }
  if (error) return FilesystemStatus(path, "list", error);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return FilesystemStatus(path, "remove", error);
  return absl::OkStatus();
}

absl::StatusOr<PathKind> KindOf(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) {
    if (IsAbsence(errno)) return PathKind::kNothing;
    return ErrnoStatus(path, "look at it", errno);
  }
  if (S_ISREG(info.st_mode)) return PathKind::kFile;
  if (S_ISDIR(info.st_mode)) return PathKind::kDirectory;
  return S_ISLNK(info.st_mode) ? PathKind::kSymlink : PathKind::kOther;
}

absl::StatusOr<bool> IsThere(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) return true;
  if (IsAbsence(errno)) return false;
  return ErrnoStatus(path, "look at it", errno);
}

bool FileExists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

bool IsDirectory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

bool IsSymlink(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_symlink(path, error);
}

absl::StatusOr<int64_t> FileBytes(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(path, "stat", errno);
  if (!S_ISREG(info.st_mode)) return absl::NotFoundError(absl::StrCat(path, ": not a regular file"));
  return static_cast<int64_t>(info.st_size);
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  return std::filesystem::path(directory) / std::filesystem::path(name);
}

std::string ParentOf(const std::string& path) {
  std::filesystem::path full(path);
  if (!full.has_filename()) full = full.parent_path();  // a trailing slash
  return full.has_parent_path() ? full.parent_path().string() : ".";
}

}  // namespace zerofleet
