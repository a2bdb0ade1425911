// The trials, in order, and the table of file systems; see directory_probe.h. To add a file system, add a row.
#include "base/directory_probe.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"

namespace zerofleet {
namespace {

// `locks` is advice for a file system whose flock may hold on one node only ("" if there is none); null where no other
// node can have the directory, or where locks hold on all nodes.
struct FileSystem {
  uint32_t type;  // statfs
  const char* name;
  const char* locks = nullptr;
};
constexpr FileSystem kFileSystems[] = {
    {0xef53, "ext4"},
    {0x58465342, "xfs"},
    {0x9123683e, "btrfs"},
    {0x2fc12fc1, "zfs"},
    {0xf2f52010, "f2fs"},
    {0xca451a4e, "bcachefs"},
    {0x01021994, "tmpfs"},
    {0x858458f6, "ramfs"},
    {0x794c7630, "overlay"},
    {0x4d44, "vfat"},
    {0x2011bab0, "exfat"},
    {0x7366746e, "ntfs3"},
    {0x7461636f, "ocfs2"},
    {0x01161970, "gfs2"},
    {0x00c36400, "ceph"},
    {0x6969, "nfs", "mount it without nolock and local_lock"},
    {0xff534d42, "cifs", "mount it without nobrl"},
    {0xfe534d42, "smb2", "mount it without nobrl"},
    {0x517b, "smbfs", ""},
    {0x0bd00bd0, "lustre", "mount it with flock, not with localflock"},
    {0x47504653, "gpfs", ""},
    {0x65735546, "fuse", "see whether its daemon shares flock"},  // virtiofs too
    {0x01021997, "9p", ""},
    {0x19830326, "beegfs", "set tuneUseGlobalFileLocks"},
    {0x5346414f, "afs", ""},
    {0xaad7aaea, "panfs", ""},
    {0x786f4256, "vboxsf", ""},
};

constexpr char kNameStart[] = ".probe.";
constexpr char kOneCoordinator[] = "start no second coordinator there from another node";

struct TrialEnd {
  absl::Status status;  // why the trial refuses the directory
  bool full = false;
};

bool IsFullError(int error) { return error == ENOSPC || error == EDQUOT; }

// Whether the error says that the file system cannot do it at all, and not that it failed just now (EIO, ESTALE,
// EROFS).
bool IsRefusal(int error) {
  constexpr int kRefusals[] = {EINVAL, ENOSYS, EOPNOTSUPP, EPERM, EEXIST, ENOTEMPTY, EXDEV, EISDIR, EBADF, EMLINK};
  return std::find(std::begin(kRefusals), std::end(kRefusals), error) != std::end(kRefusals);
}

int TryRenameUnlessTaken(const std::string& from, const std::string& to) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
}

bool IsUnknownFlag(int error) { return error == EINVAL || error == ENOSYS; }

// The file's size; -1 if there is none.
off_t BytesOf(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 ? info.st_size : -1;
}

// An open file; get() is -1, with errno set, if it could not be opened.
class File {
 public:
  File(const std::string& path, int flags) : descriptor_(open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0600)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

// The trials of one directory. Each says why the directory is refused, or that the disk is full.
class Trial {
 public:
  Trial(std::string dir, DirectoryTraits& traits, const FileSystem* known)
      : dir_(std::move(dir)), traits_(traits), known_(known) {
    std::random_device random;
    name_ = absl::StrFormat("%s%d.%08x%08x", kNameStart, getpid(), random(), random());
  }
  ~Trial() {
    for (const char* each : kNames) RemoveOne(Path(each)).IgnoreError();
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  absl::Status Run() {
    RemoveLeftovers();
    for (const auto trial : {&Trial::Creation, &Trial::Replacement, &Trial::DirectoryRename, &Trial::DirectorySync}) {
      const TrialEnd end = (this->*trial)();
      if (end.full) {
        traits_.weaknesses.emplace_back("is full, so that nothing could be tried out there: make room");
        return absl::OkStatus();
      }
      ZF_RETURN_IF_ERROR(end.status);
    }
    Locks();
    return absl::OkStatus();
  }

 private:
  static constexpr const char* kNames[] = {"a", "b", "c", "d", "e"};  // c and d are directories, the others files

  std::string Path(const char* which) const { return JoinPath(dir_, absl::StrCat(name_, ".", which)); }

  void RemoveLeftovers() const {
    const absl::StatusOr<std::vector<std::string>> names = ListDirectory(dir_);
    if (!names.ok()) return;
    for (const std::string& name : *names) {
      if (absl::StartsWith(name, kNameStart)) RemoveOne(JoinPath(dir_, name)).IgnoreError();
    }
  }

  TrialEnd Refused(const std::string& what) const {
    return {absl::FailedPreconditionError(
        absl::StrCat(dir_, " is on ", traits_.file_system, ", where ", what,
                     ": no checkpoint can be committed safely there; use another file system"))};
  }
  TrialEnd Refused(const std::string& what, int error) const {
    if (IsFullError(error)) return {{}, true};
    if (IsRefusal(error)) return Refused(absl::StrCat(what, " (", std::strerror(error), ")"));
    return {absl::ResourceExhaustedError(absl::StrCat(dir_, ": ", what, ": ", std::strerror(error)))};
  }

  // Creates and syncs a file of `bytes` bytes. It is a hole, so that usually it can be created even on a full disk.
  TrialEnd Create(const std::string& path, off_t bytes) const {
    const File file(path, O_CREAT | O_EXCL);
    if (file.get() < 0) {
      const int error = errno;
      if (IsFullError(error)) return {{}, true};
      return {absl::ResourceExhaustedError(absl::StrCat(path, ": cannot create: ", std::strerror(error)))};
    }
    if (ftruncate(file.get(), bytes) != 0) return Refused("a file cannot be written", errno);
    if (fsync(file.get()) != 0) return Refused("fsync of a file fails", errno);
    return {};
  }

  TrialEnd Creation() const {
    if (TrialEnd end = Create(Path("a"), 1); end.full || !end.status.ok()) return end;
    const File again(Path("a"), O_CREAT | O_EXCL);
    if (again.get() >= 0) return Refused("exclusive creation (O_EXCL) opens a file that exists");
    return errno == EEXIST ? TrialEnd{} : Refused("exclusive creation (O_EXCL) does not say that a file exists", errno);
  }

  TrialEnd Replacement() const {
    if (TrialEnd end = Create(Path("b"), 2); end.full || !end.status.ok()) return end;
    const std::string to = Path("b");
    std::string from = Path("a");
    if (TryRenameUnlessTaken(from, to) == 0) return Refused("a rename replaces a file against RENAME_NOREPLACE");
    const int taken = errno;
    if (taken != EEXIST && !IsUnknownFlag(taken) && IsRefusal(taken))
      return Refused("a rename with RENAME_NOREPLACE fails", taken);
    // The kernel itself sees that a name is taken, which says nothing about the file system until a free name is tried.
    const int free = TryRenameUnlessTaken(from, Path("e")) == 0 ? 0 : errno;
    if (free == 0) from = Path("e");
    if (IsUnknownFlag(taken) || IsUnknownFlag(free)) {
      traits_.weaknesses.emplace_back("does not know RENAME_NOREPLACE: let nothing else make step directories there");
    } else if (free != 0 && BytesOf(Path("e")) >= 0) {  // the answer was lost
      from = Path("e");
    }
    // Afterwards, what is there counts, not the answer, which may be lost over NFS.
    const int error = rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
    if (BytesOf(from) < 0 && BytesOf(to) == 1) return {};
    return error != 0 ? Refused("a rename does not replace a file", error)
                      : Refused("a rename over a file is not one step: the old one is still there");
  }

  TrialEnd DirectoryRename() const {
    const std::string from = Path("c"), to = Path("d");
    if (mkdir(from.c_str(), 0700) != 0) return Refused("a directory cannot be made", errno);
    const int error = rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
    if (IsDirectory(to) && !IsDirectory(from)) return {};
    return error != 0 ? Refused("a directory cannot be renamed", error)
                      : Refused("a directory that is renamed keeps its name");
  }

  TrialEnd DirectorySync() const {
    const int directory = open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return Refused("a directory cannot be opened", errno);
    const int error = fsync(directory) == 0 ? 0 : errno;
    close(directory);
    return error == 0 ? TrialEnd{} : Refused("fsync of a directory fails", error);
  }

  // Another open file description, even of the same process, must not get a lock that is held.
  void Locks() const {
    const File holder(Path("b"), 0), other(Path("b"), 0);
    if (flock(holder.get(), LOCK_EX | LOCK_NB) != 0) {
      traits_.weaknesses.push_back(absl::StrCat("has no flock (", std::strerror(errno), "): ", kOneCoordinator));
    } else if (flock(other.get(), LOCK_EX | LOCK_NB) == 0) {
      traits_.weaknesses.push_back(absl::StrCat("gives a lock (flock) to two at once: ", kOneCoordinator));
    } else if (known_ != nullptr && known_->locks != nullptr) {
      const bool hint = known_->locks[0] != 0;
      traits_.weaknesses.push_back(absl::StrCat("may hold a lock (flock) on one node alone: ", known_->locks,
                                                hint ? ", and " : "", kOneCoordinator));
    }
  }

  const std::string dir_;
  DirectoryTraits& traits_;
  const FileSystem* const known_;
  std::string name_;
};

}  // namespace

absl::StatusOr<DirectoryTraits> ProbeDirectory(const std::string& dir) {
  struct statfs system;
  struct stat info;
  if (statfs(dir.c_str(), &system) != 0 || stat(dir.c_str(), &info) != 0)
    return absl::ResourceExhaustedError(absl::StrCat(dir, ": cannot look at it: ", std::strerror(errno)));
  const auto type = static_cast<uint32_t>(system.f_type);
  const auto* const known =
      std::find_if(std::begin(kFileSystems), std::end(kFileSystems), [&](const auto& row) { return row.type == type; });
  const bool has_row = known != std::end(kFileSystems);
  DirectoryTraits traits{info.st_dev, has_row ? known->name : absl::StrFormat("a file system of type 0x%x", type), {}};
  ZF_RETURN_IF_ERROR(Trial(dir, traits, has_row ? known : nullptr).Run());
  return traits;
}

}  // namespace zerofleet
