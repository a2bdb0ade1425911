// Replacements for libc's write, fsync, rename, posix_fadvise and more, which a test can watch and make fail; linking
// this file puts them in place. Durability depends on the order of these calls and on what follows when one fails,
// which no other test can see.
#ifndef ZEROFLEET_BASE_FILE_CALLS_TESTING_H_
#define ZEROFLEET_BASE_FILE_CALLS_TESTING_H_

#include <cstddef>
#include <string>
#include <vector>

namespace zerofleet {

// While a FileCallLog lives, calls on paths below `directory` are recorded. Only one may live at a time.
class FileCallLog {
 public:
  explicit FileCallLog(const std::string& directory);
  ~FileCallLog();
  FileCallLog(const FileCallLog&) = delete;
  FileCallLog& operator=(const FileCallLog&) = delete;

  // "write a.tmp", "fsync a.tmp", "rename a.tmp a", "fsync ." in order, with paths relative to the directory;
  // consecutive writes to one file are listed once. "uncache a" is a DropFromCache.
  std::vector<std::string> calls() const;
  // Returns once calls() contains `call`.
  void WaitFor(const std::string& call);

  // Every fsync of the file `name` (relative to the directory) fails with `error` from now on.
  void FailFsync(const std::string& name, int error);

  // Every rename to `name` (relative to the directory) fails with `error` from now on.
  void FailRename(const std::string& name, int error);
  // From now on every rename to `name` is carried out but fails with `error`, as over NFS when the answer is lost.
  void LoseRename(const std::string& name, int error);
  // LoseRename for every name.
  void LoseEveryRename(int error);
  // From now on renames refuse flags (EINVAL), as on NFS; EEXIST if the name is taken, which the kernel itself sees.
  void RefuseRenameFlags();
  // From now on renames do nothing and report success.
  void KeepRenamed();
  // From now on renames ignore flags: they replace what they must not.
  void IgnoreRenameFlags();
  // From now on O_EXCL is ignored.
  void IgnoreExclusive();
  // From now on every flock fails with `error`; if that is 0, every one succeeds.
  void BendFlock(int error);
  // The file system type that statfs reports.
  void SetFileSystem(long type);
  // From now on stat and lstat of `name` (relative to the directory) fail with `error`.
  void FailStat(const std::string& name, int error);
  // From now on creating a file fails with `error`; 0 ends this.
  void FailCreation(int error);
  // The next `times` calls of posix_fallocate are interrupted (EINTR).
  void InterruptAllocation(int times);

  // The next fsync of a file whose name ends with `suffix` waits for ReleaseFsync, without a time limit.
  void HoldFsync(const std::string& suffix);
  void WaitUntilHeld();
  void ReleaseFsync();
  // The next write of at least `bytes` to such a file waits for ReleaseWrite.
  void HoldWrite(const std::string& suffix, size_t bytes);
  void ReleaseWrite() { ReleaseFsync(); }
  // The next DropFromCache of such a file waits for ReleaseUncache.
  void HoldUncache(const std::string& suffix);
  void ReleaseUncache() { ReleaseFsync(); }
};

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_FILE_CALLS_TESTING_H_
